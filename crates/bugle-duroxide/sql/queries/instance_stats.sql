-- Sizes of an instance's current execution and values. The first event tells what was carried over.
SELECT count(h.event), coalesce(sum(octet_length(h.event)), 0)::bigint,
    (SELECT f.event FROM {schema}.history f
     WHERE f.instance_id = i.instance_id AND f.execution_id = i.execution_id ORDER BY f.event_id LIMIT 1)
FROM {schema}.instances i
LEFT JOIN {schema}.history h ON h.instance_id = i.instance_id AND h.execution_id = i.execution_id
WHERE i.instance_id = $1 AND i.name IS NOT NULL
GROUP BY i.instance_id
