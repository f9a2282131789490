-- Delete the names of a queue's traces.
DELETE FROM {schema}.trace_names n USING {schema}.traces t WHERE t.queue_id = $1 AND n.trace_id = t.id
