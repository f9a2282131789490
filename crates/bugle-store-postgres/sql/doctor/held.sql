-- What keeps vacuum from removing dead rows: transactions open for long, prepared ones, replication slots left behind.
SELECT 'session ' || pid || ' (' || coalesce(nullif(application_name, ''), usename::text, '?') || ')',
    extract(epoch FROM now() - xact_start)::bigint
FROM pg_catalog.pg_stat_activity
WHERE pid <> pg_backend_pid() AND datname = current_database() AND xact_start < now() - interval '5 minutes'
UNION ALL
SELECT 'prepared transaction ' || gid, extract(epoch FROM now() - prepared)::bigint
FROM pg_catalog.pg_prepared_xacts WHERE prepared < now() - interval '5 minutes'
UNION ALL
SELECT 'replication slot ' || slot_name || ', which nobody uses', NULL
FROM pg_catalog.pg_replication_slots WHERE NOT active
