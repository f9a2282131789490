-- Of the lanes u, at most $2 that differ from what is in the sums, with the cursors whose share may have changed: those that
-- differ themselves, and all of a lane whose ends moved. Rows of a lane follow each other.
SELECT s.lane_id, s.queue_id, s.head, s.tail, s.was_head, s.was_tail, c.*
FROM (
    SELECT l.lane_id, l.queue_id, l.head, l.tail, t.head AS was_head, t.tail AS was_tail,
           t.lane_id IS NULL OR t.head <> l.head OR t.tail <> l.tail AS moved
    FROM u
    {lane_by_key}
    LEFT JOIN LATERAL (
        SELECT k.* FROM {schema}.lane_tallies k
        WHERE k.bucket = $1 AND k.lane_id >= u.lane_id
        ORDER BY k.lane_id
        LIMIT 1
    ) t ON t.lane_id = u.lane_id
    LEFT JOIN LATERAL (
        SELECT d.group_name FROM {schema}.cursors d
        WHERE d.bucket = $1 AND d.lane_id = u.lane_id AND {uncounted_cursor}
        ORDER BY d.group_name
        LIMIT 1
    ) x ON true
    WHERE t.lane_id IS NULL OR t.head <> l.head OR t.tail <> l.tail OR x.group_name IS NOT NULL
    LIMIT (SELECT $2::bigint)
) s
LEFT JOIN LATERAL (
    SELECT d.group_name, d.committed, d.consumed, d.served_at, d.lease_until, d.lease_end,
           k.group_name IS NOT NULL AS known, k.passed, k.finished, k.consumed AS was_consumed
    FROM {schema}.cursors d
    LEFT JOIN {schema}.cursor_tallies k
           ON k.bucket = $1 AND k.lane_id = s.lane_id AND k.group_name = d.group_name
    WHERE d.bucket = $1 AND d.lane_id = s.lane_id AND (s.moved OR {uncounted_cursor})
    ORDER BY d.group_name
) c ON true
