-- Delete dead letters by id.
DELETE FROM {schema}.dead_letters WHERE bucket = ANY ($1::int[]) AND id = ANY ($2::uuid[])
RETURNING bucket, queue_id, counted
