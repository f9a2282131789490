-- How much is in the inbox, counted up to a bound, and since how many seconds.
SELECT count(*), coalesce(extract(epoch FROM now())::bigint - min(i.written_at) / 1000000, 0)
FROM (SELECT o.written_at FROM {schema}.inbox o ORDER BY o.queue, o.partition, o.id LIMIT 100000) i
