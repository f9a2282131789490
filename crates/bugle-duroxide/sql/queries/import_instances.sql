-- Instances that exist, and those to be that have only been sent a message. Nobody holds them; they are due when their
-- first message is. Their executions are here already. The count is of those that exist.
WITH copied AS (
    INSERT INTO {schema}.instances (instance_id, due_at, execution_id, name, version, pin, parent_instance_id,
        custom_status, custom_status_version, created_at, updated_at)
    SELECT {schema}.stored(coalesce(i.instance_id, q.instance_id)), q.visible_at, i.current_execution_id,
        {schema}.stored(i.orchestration_name), {schema}.stored(i.orchestration_version),
        x.pin, {schema}.stored(i.parent_instance_id), {schema}.stored(i.custom_status), coalesce(i.custom_status_version, 0),
        i.created_at, i.updated_at
    FROM {source}.instances i
    FULL JOIN (
        SELECT m.instance_id, min(m.visible_at) AS visible_at FROM {source}.orchestrator_queue m GROUP BY m.instance_id
    ) AS q ON q.instance_id = i.instance_id
    LEFT JOIN {schema}.executions x
        ON x.instance_id = {schema}.stored(i.instance_id) AND x.execution_id = i.current_execution_id
    RETURNING name
)
SELECT count(name) FROM copied
