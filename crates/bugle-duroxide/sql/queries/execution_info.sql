-- What is known of an execution.
SELECT x.execution_id, x.status, x.output, {schema}.micros(x.started_at) / 1000, {schema}.micros(x.completed_at) / 1000,
    (SELECT count(*) FROM {schema}.history h WHERE h.instance_id = x.instance_id AND h.execution_id = x.execution_id)
FROM {schema}.executions x WHERE x.instance_id = $1 AND x.execution_id = $2
