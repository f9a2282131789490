-- The history of one execution.
SELECT h.event FROM {schema}.history h WHERE h.instance_id = $1 AND h.execution_id = $2 ORDER BY h.event_id
