-- Traces with a name, newest first.
SELECT {trace} FROM {schema}.trace_names n JOIN {schema}.traces t ON t.id = n.trace_id
WHERE n.name = $1
ORDER BY t.created_at DESC, t.id DESC OFFSET $2 LIMIT $3
