-- How many dead letters match.
SELECT count(*) FROM {schema}.dead_letters d
WHERE {dead_filter}
