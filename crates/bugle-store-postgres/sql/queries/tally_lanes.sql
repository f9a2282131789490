-- What the lanes of each queue hold.
SELECT q.queue_id, count(l.lane_id), count(*) FILTER (WHERE l.head > l.tail),
       coalesce(sum(l.head - l.tail), 0)::bigint, coalesce(sum(l.head), 0)::bigint
FROM {schema}.queues q LEFT JOIN {schema}.lanes l ON l.queue_id = q.queue_id
GROUP BY q.queue_id
