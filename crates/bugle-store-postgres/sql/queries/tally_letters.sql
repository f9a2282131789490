-- Count some dead letters.
UPDATE {schema}.dead_letters d
SET counted = true
FROM (SELECT o.id FROM {schema}.dead_letters o WHERE o.bucket = $1 AND NOT o.counted
      ORDER BY o.queue_id, o.id LIMIT $2) x
WHERE d.bucket = $1 AND d.id = x.id
RETURNING d.queue_id
