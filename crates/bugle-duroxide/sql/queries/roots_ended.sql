-- Root instances whose last execution ended, oldest first.
SELECT i.instance_id FROM {schema}.instances i
JOIN {schema}.executions x ON x.instance_id = i.instance_id AND x.execution_id = i.execution_id
WHERE i.parent_instance_id IS NULL AND x.status IN ('Completed', 'Failed')
    AND ($1::text[] IS NULL OR i.instance_id = ANY ($1))
    AND ($2::bigint IS NULL OR x.completed_at < to_timestamp($2::float8 / 1000))
ORDER BY x.completed_at, i.instance_id LIMIT $3
