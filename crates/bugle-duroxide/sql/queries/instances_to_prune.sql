-- Instances to prune, by name or by when their last execution ended.
SELECT i.instance_id FROM {schema}.instances i
JOIN {schema}.executions x ON x.instance_id = i.instance_id AND x.execution_id = i.execution_id
WHERE ($1::text[] IS NULL OR i.instance_id = ANY ($1))
    AND ($2::bigint IS NULL OR x.completed_at < to_timestamp($2::float8 / 1000))
ORDER BY i.instance_id LIMIT $3
