-- Delete the cursors of collected lanes.
DELETE FROM {schema}.cursors WHERE bucket = $1 AND lane_id = ANY ($2::uuid[])
