-- An instance's executions, oldest first.
SELECT x.execution_id FROM {schema}.executions x WHERE x.instance_id = $1 ORDER BY x.execution_id
