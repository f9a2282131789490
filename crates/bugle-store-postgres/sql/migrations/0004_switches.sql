-- What operators have switched for all servers. Their change counts as one of the catalog.
ALTER TABLE {schema}.meta
    ADD COLUMN push_maintenance boolean NOT NULL DEFAULT false,
    ADD COLUMN pop_maintenance boolean NOT NULL DEFAULT false;
