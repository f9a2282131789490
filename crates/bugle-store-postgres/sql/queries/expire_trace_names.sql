-- Delete the names of traces that are gone.
DELETE FROM {schema}.trace_names WHERE trace_id = ANY ($1::uuid[])
