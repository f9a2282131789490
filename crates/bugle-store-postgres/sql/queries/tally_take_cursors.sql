-- Take cursors that are gone, on these lanes of all groups or of one, out of the sums of their groups.
UPDATE {schema}.group_tallies g
SET cursors = g.cursors - s.cursors,
    passed = g.passed - s.passed,
    finished = g.finished - s.finished,
    consumed = g.consumed - s.consumed,
    version = {this_version}
FROM (
    SELECT t.queue_id, t.group_name, count(*) AS cursors, sum(t.passed)::bigint AS passed,
           sum(t.finished)::bigint AS finished, sum(t.consumed)::bigint AS consumed
    FROM {schema}.cursor_tallies t
    WHERE t.bucket = $1 AND t.lane_id = ANY ($2::uuid[]) AND ($3::text IS NULL OR t.group_name = $3)
    GROUP BY t.queue_id, t.group_name
) s
WHERE g.bucket = $1 AND g.queue_id = s.queue_id AND g.group_name = s.group_name
