-- Dead letters, latest failure first.
SELECT {dead} FROM {schema}.dead_letters d
WHERE {dead_filter}
ORDER BY d.failed_at DESC, d.id DESC
OFFSET $9 LIMIT $10
