-- Lanes of a queue by name, after one of them.
SELECT {lane} FROM {schema}.lanes l WHERE l.queue_id = $1 AND l.name > $2 ORDER BY l.name LIMIT $3
