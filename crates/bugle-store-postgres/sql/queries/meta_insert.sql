-- The number of buckets, fixed by the first server.
INSERT INTO {schema}.meta (id, buckets, catalog_version) VALUES (1, $1, 1) ON CONFLICT (id) DO NOTHING
