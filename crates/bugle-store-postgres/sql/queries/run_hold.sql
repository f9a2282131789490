-- Keep a lane from being deleted while a run of it is made. Does not hinder pushes.
SELECT l.lane_id FROM {schema}.lanes l WHERE l.bucket = $1 AND l.lane_id = $2 FOR KEY SHARE
