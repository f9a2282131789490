-- Trace names summed up, latest first.
SELECT n.name, count(*), count(DISTINCT (n.lane_id, n.transaction_id)), max(n.created_at)
FROM {schema}.trace_names n
GROUP BY n.name
ORDER BY max(n.created_at) DESC, n.name OFFSET $1 LIMIT $2
