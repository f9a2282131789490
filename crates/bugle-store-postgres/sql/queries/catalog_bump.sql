-- Count a change of queues or groups.
UPDATE {schema}.meta SET catalog_version = catalog_version + 1 WHERE id = 1
