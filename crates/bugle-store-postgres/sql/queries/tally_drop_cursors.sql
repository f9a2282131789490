-- Forget what of cursors was in the sums, on these lanes of all groups or of one.
DELETE FROM {schema}.cursor_tallies
WHERE bucket = $1 AND lane_id = ANY ($2::uuid[]) AND ($3::text IS NULL OR group_name = $3)
