-- The first of the tables to import from that is not there.
SELECT t.name FROM unnest(ARRAY['_duroxide_migrations', 'instances', 'executions', 'history', 'orchestrator_queue',
    'worker_queue', 'instance_locks', 'sessions', 'kv_store', 'kv_delta']) AS t (name)
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_tables p WHERE p.schemaname = $1 AND p.tablename = t.name)
LIMIT 1
