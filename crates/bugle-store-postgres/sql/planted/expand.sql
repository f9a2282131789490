-- Of a version that does not exist, for the test of upgrades: what an expanding migration may do to tables under load.
ALTER TABLE {schema}.lanes ADD COLUMN planted_note text;
ALTER TABLE {schema}.cursors ADD COLUMN planted_count bigint NOT NULL DEFAULT 0;
ALTER TABLE {schema}.segments ADD COLUMN planted_size int;
CREATE TABLE {schema}.planted (id int PRIMARY KEY);
