-- Delete dead letters that failed before a time, the oldest first.
DELETE FROM {schema}.dead_letters d
USING (SELECT o.bucket, o.id FROM {schema}.dead_letters o WHERE o.failed_at < $1
       ORDER BY o.failed_at LIMIT $2 FOR UPDATE{skip_locked}) x
WHERE d.bucket = x.bucket AND d.id = x.id
RETURNING d.bucket, d.queue_id, d.counted
