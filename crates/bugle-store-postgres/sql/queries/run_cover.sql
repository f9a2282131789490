-- Let searches use the run that was just made, unless another server was first.
UPDATE {schema}.lanes SET indexed = $4 + 16384
WHERE bucket = $1 AND lane_id = $2 AND indexed = $3 AND head >= $4 + 16384
RETURNING lane_id
