-- Version of queues and groups.
SELECT m.catalog_version FROM {schema}.meta m WHERE m.id = 1
