-- Version of queues, groups and switches, and the switches themselves.
SELECT m.catalog_version, m.push_maintenance, m.pop_maintenance FROM {schema}.meta m WHERE m.id = 1
