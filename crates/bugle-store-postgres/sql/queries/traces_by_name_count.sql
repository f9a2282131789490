-- How many traces have a name.
SELECT count(*) FROM {schema}.trace_names n WHERE n.name = $1
