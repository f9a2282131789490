-- How much there is beside lanes, and what it takes.
SELECT (SELECT count(*) FROM {schema}.queues), (SELECT count(*) FROM {schema}.groups),
    (SELECT count(*) FROM {schema}.dead_letters), (SELECT count(*) FROM {schema}.traces),
    (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_catalog.pg_class c
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r')
