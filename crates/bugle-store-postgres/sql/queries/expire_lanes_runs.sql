-- Delete the fingerprint runs of collected lanes.
DELETE FROM {schema}.fingerprint_runs WHERE bucket = $1 AND lane_id = ANY ($2::uuid[])
