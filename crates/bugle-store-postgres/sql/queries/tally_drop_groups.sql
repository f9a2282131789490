-- Forget groups that have no cursor any more, now that those on these lanes are gone.
DELETE FROM {schema}.group_tallies g
USING (
    SELECT DISTINCT t.queue_id, t.group_name FROM {schema}.cursor_tallies t
    WHERE t.bucket = $1 AND t.lane_id = ANY ($2::uuid[]) AND ($3::text IS NULL OR t.group_name = $3)
) s
WHERE g.bucket = $1 AND g.queue_id = s.queue_id AND g.group_name = s.group_name AND g.cursors = 0
