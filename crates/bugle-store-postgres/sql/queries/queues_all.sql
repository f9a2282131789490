-- All queues.
SELECT {queue} FROM {schema}.queues q ORDER BY q.name
