-- Activities in their order. Rows of older releases have what identifies them in the item alone.
WITH copied AS (
    INSERT INTO {schema}.activities
        (instance_id, execution_id, activity_id, item, session_id, tag, due_at, queued_at, attempts)
    SELECT {schema}.stored(coalesce(q.instance_id, q.work_item::json #>> '{ActivityExecute,instance}')),
        coalesce(q.execution_id, (q.work_item::json #>> '{ActivityExecute,execution_id}')::bigint),
        coalesce(q.activity_id, (q.work_item::json #>> '{ActivityExecute,id}')::bigint),
        q.work_item, {schema}.stored(q.session_id), {schema}.stored(q.tag), q.visible_at, q.created_at, q.attempt_count
    FROM {source}.worker_queue q ORDER BY q.id
    RETURNING 1
)
SELECT count(*) FROM copied
