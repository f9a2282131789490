-- The number of buckets, and what the database keeps text in.
SELECT m.buckets, current_setting('server_encoding') FROM {schema}.meta m WHERE m.id = 1
