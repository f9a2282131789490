-- Delete a group's cursors on a queue, in ascending order.
WITH s AS MATERIALIZED (
    SELECT c.lane_id
    FROM {schema}.cursors c
    JOIN {schema}.lanes l ON l.bucket = $1 AND l.lane_id = c.lane_id
    WHERE c.bucket = $1 AND l.queue_id = $2 AND c.group_name = $3
    ORDER BY c.lane_id
    FOR UPDATE OF c
)
DELETE FROM {schema}.cursors c USING s WHERE c.bucket = $1 AND c.lane_id = s.lane_id AND c.group_name = $3
RETURNING c.lane_id
