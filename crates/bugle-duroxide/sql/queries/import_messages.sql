-- Messages in their order, timers at their time. Both providers count an attempt that ended without a word.
WITH copied AS (
    INSERT INTO {schema}.messages (instance_id, item, visible_at, attempts, droppable, announced)
    SELECT {schema}.stored(q.instance_id), q.work_item, q.visible_at, q.attempt_count,
        starts_with(q.work_item, '{"QueueMessage":'), true
    FROM {source}.orchestrator_queue q ORDER BY q.id
    RETURNING 1
)
SELECT count(*) FROM copied
