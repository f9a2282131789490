-- Lanes of a queue with messages for a group: those written since a time, and some named ones. Costs what was written,
-- not what exists; survey.sql tells how a kept plan is held to that.
WITH u AS MATERIALIZED (
    SELECT w.lane_id, $3::text AS group_name
    FROM {schema}.lanes w
    WHERE w.bucket = $1 AND w.queue_id = $2
      AND w.written_s BETWEEN (SELECT $6::bigint / 1000000) AND (SELECT 9223372036854775807)
      AND w.written_at >= (SELECT $6::bigint)
    UNION
    SELECT unnest((SELECT $7::uuid[])), $3::text
)
SELECT {lane}, {cursor}
FROM u
{lane_by_key}
{cursor_by_key}
WHERE l.queue_id = $2 AND ($4::uuid IS NULL OR u.lane_id > $4)
  AND l.head > greatest(l.tail, coalesce(c.committed, 0))
ORDER BY l.lane_id
LIMIT $5
