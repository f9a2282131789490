-- How many trace names there are.
SELECT count(DISTINCT n.name) FROM {schema}.trace_names n
