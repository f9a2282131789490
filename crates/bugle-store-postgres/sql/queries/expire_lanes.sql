-- Delete lanes that were picked and locked.
DELETE FROM {schema}.lanes WHERE bucket = $1 AND lane_id = ANY ($2::uuid[]) AND head = tail RETURNING lane_id
