-- Dead letters after one of them, earliest failure first.
SELECT {dead} FROM {schema}.dead_letters d
WHERE {dead_filter} AND (d.failed_at, d.id) > ($9, $10)
ORDER BY d.failed_at, d.id
LIMIT $11
