-- Rows that order who counts, for a new installation: nothing is counted yet.
INSERT INTO {schema}.tally_state (bucket, since_s, walked)
SELECT b, $2, '00000000-0000-0000-0000-000000000000' FROM generate_series(0, $1 - 1) b
ON CONFLICT (bucket) DO NOTHING
