-- How much is in the inbox, counting $1 rows at most. By the key: pages that only hold what was deleted are not read.
SELECT count(*), min(i.written_at)
FROM (SELECT o.written_at FROM {schema}.inbox o ORDER BY o.queue, o.partition, o.id LIMIT $1::bigint) i
