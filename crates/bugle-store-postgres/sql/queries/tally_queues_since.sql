-- Which queues there are, if any was made or deleted since a version of the catalog.
SELECT m.catalog_version,
       (SELECT array_agg(q.queue_id ORDER BY q.queue_id) FROM {schema}.queues q WHERE m.catalog_version <> $1)
FROM {schema}.meta m WHERE m.id = 1
