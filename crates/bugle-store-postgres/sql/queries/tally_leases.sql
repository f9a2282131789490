-- Leases that have not ended at a time, and the messages under them, of the queues in a range of ids.
SELECT t.queue_id, t.group_name, count(*), sum(t.leased)::bigint
FROM {schema}.cursor_tallies t
WHERE t.bucket = $1 AND t.lease_until > $4 AND t.queue_id BETWEEN $2 AND $3
GROUP BY t.queue_id, t.group_name
