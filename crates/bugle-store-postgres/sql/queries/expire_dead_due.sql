-- Whether a dead letter failed before a time.
SELECT d.failed_at FROM {schema}.dead_letters d WHERE d.failed_at < $1 ORDER BY d.failed_at LIMIT 1
