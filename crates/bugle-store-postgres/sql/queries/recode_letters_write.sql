-- Put other copies of messages into dead letters.
UPDATE {schema}.dead_letters d SET message = u.message
FROM unnest($2::uuid[], $3::bytea[]) AS u (id, message)
WHERE d.bucket = $1 AND d.id = u.id
RETURNING 1
