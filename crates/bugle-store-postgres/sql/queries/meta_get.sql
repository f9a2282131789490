-- The number of buckets, what the database keeps text in, and whether tables are distributed.
SELECT m.buckets, current_setting('server_encoding'), {distributed} FROM {schema}.meta m WHERE m.id = 1
