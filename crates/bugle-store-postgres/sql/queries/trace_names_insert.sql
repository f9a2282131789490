-- The names of a trace that was recorded.
INSERT INTO {schema}.trace_names (name, trace_id, lane_id, transaction_id, created_at)
SELECT DISTINCT n.name, t.id, t.lane_id, t.transaction_id, t.created_at
FROM {schema}.traces t CROSS JOIN LATERAL unnest(t.names) AS n (name)
WHERE t.id = $1
ON CONFLICT (name, trace_id) DO NOTHING
