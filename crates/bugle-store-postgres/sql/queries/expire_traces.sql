-- Delete traces recorded before a time, the oldest first.
DELETE FROM {schema}.traces t
USING (SELECT o.id FROM {schema}.traces o WHERE o.created_at < $1
       ORDER BY o.created_at LIMIT $2 FOR UPDATE{skip_locked}) x
WHERE t.id = x.id
RETURNING t.id
