-- What is known of an instance.
SELECT i.instance_id, i.name, i.version, i.execution_id, x.status, x.output,
    {schema}.micros(i.created_at) / 1000, {schema}.micros(i.updated_at) / 1000, i.parent_instance_id
FROM {schema}.instances i
LEFT JOIN {schema}.executions x ON x.instance_id = i.instance_id AND x.execution_id = i.execution_id
WHERE i.instance_id = $1 AND i.name IS NOT NULL
