-- How far each group has come in each queue.
SELECT l.queue_id, c.group_name, count(*),
       sum(greatest(least(c.committed, l.head) - l.tail, 0))::bigint,
       count(*) FILTER (WHERE l.head > l.tail AND c.committed >= l.head),
       sum(c.consumed)::bigint,
       count(*) FILTER (WHERE c.lease_until > $1),
       coalesce(sum(greatest(c.lease_end - greatest(c.committed, l.tail), 0)) FILTER (WHERE c.lease_until > $1), 0)::bigint,
       max(c.served_at)
FROM {schema}.cursors c JOIN {schema}.lanes l ON l.bucket = c.bucket AND l.lane_id = c.lane_id
GROUP BY l.queue_id, c.group_name
ORDER BY c.group_name
