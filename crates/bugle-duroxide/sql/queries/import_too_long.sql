-- A name in the source that is longer than $1 bytes, which names here may not be.
SELECT n.field, n.name FROM (
    SELECT 'instance_id', i.instance_id FROM {source}.instances i
    UNION ALL SELECT 'parent_instance_id', i.parent_instance_id FROM {source}.instances i
    UNION ALL SELECT 'instance_id', q.instance_id FROM {source}.orchestrator_queue q
    UNION ALL SELECT 'instance_id', q.instance_id FROM {source}.worker_queue q
    UNION ALL SELECT 'session_id', q.session_id FROM {source}.worker_queue q
    UNION ALL SELECT 'tag', q.tag FROM {source}.worker_queue q
    UNION ALL SELECT 'key', k.key FROM {source}.kv_store k
    UNION ALL SELECT 'key', k.key FROM {source}.kv_delta k
) AS n (field, name)
WHERE octet_length(n.name) > $1 LIMIT 1
