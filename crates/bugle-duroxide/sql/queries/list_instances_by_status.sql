-- Instances whose current execution has a status, newest first.
SELECT i.instance_id FROM {schema}.instances i
JOIN {schema}.executions x ON x.instance_id = i.instance_id AND x.execution_id = i.execution_id
WHERE x.status = $1 ORDER BY i.created_at DESC, i.instance_id
