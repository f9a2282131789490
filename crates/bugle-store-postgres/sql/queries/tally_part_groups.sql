-- If sums of groups are about to be deleted because those on these lanes were their last cursors: nobody can go on from what
-- was read before.
UPDATE {schema}.tally_state SET recent = ARRAY[version]
WHERE bucket = $1 AND EXISTS (
    SELECT FROM {schema}.cursor_tallies t
    JOIN {schema}.group_tallies g ON g.bucket = $1 AND g.queue_id = t.queue_id AND g.group_name = t.group_name
    WHERE t.bucket = $1 AND t.lane_id = ANY ($2::uuid[]) AND ($3::text IS NULL OR t.group_name = $3) AND g.cursors = 0)
