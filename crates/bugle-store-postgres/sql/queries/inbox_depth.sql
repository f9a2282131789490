-- How much is in the inbox, counting $1 rows at most.
SELECT count(*), min(i.written_at) FROM (SELECT o.written_at FROM {schema}.inbox o LIMIT $1::bigint) i
