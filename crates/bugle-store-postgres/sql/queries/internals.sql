-- What the database tells of itself and of our tables, for operators: one row per section, as JSON. Only what its
-- own statistics know; nothing of the tables is read.
WITH ours AS (
    SELECT s.relid, s.relname, s.n_live_tup, s.n_dead_tup, s.n_tup_upd, s.n_tup_hot_upd, s.last_vacuum,
           s.last_autovacuum, s.last_autoanalyze, s.vacuum_count, s.autovacuum_count,
           coalesce(io.heap_blks_read, 0) AS heap_read, coalesce(io.heap_blks_hit, 0) AS heap_hit,
           coalesce(io.idx_blks_read, 0) AS idx_read, coalesce(io.idx_blks_hit, 0) AS idx_hit
    FROM pg_catalog.pg_stat_user_tables s
    JOIN pg_catalog.pg_statio_user_tables io USING (relid)
    WHERE s.relid IN (
        SELECT c.oid FROM pg_catalog.pg_class c
        WHERE c.relnamespace = (SELECT l.relnamespace FROM pg_catalog.pg_class l WHERE l.oid = '{schema}.lanes'::regclass)
    )
), here AS (
    SELECT * FROM pg_catalog.pg_stat_database WHERE datname = current_database()
)
SELECT 'database', (SELECT json_build_object(
    'name', datname, 'version', current_setting('server_version'), 'sizeBytes', pg_database_size(datname),
    'connections', numbackends, 'maxConnections', current_setting('max_connections')::int,
    'commits', xact_commit, 'rollbacks', xact_rollback, 'deadlocks', deadlocks, 'tempBytes', temp_bytes)::text FROM here)
UNION ALL
SELECT 'databaseCache', (SELECT json_build_object(
    'blocksRead', blks_read, 'blocksHit', blks_hit,
    'hitRatio', round(100.0 * blks_hit / greatest(blks_hit + blks_read, 1), 2))::text FROM here)
UNION ALL
SELECT 'tableCache', (SELECT coalesce(json_agg(json_build_object(
    'table', relname, 'blocksRead', heap_read, 'blocksHit', heap_hit,
    'hitRatio', round(100.0 * heap_hit / greatest(heap_hit + heap_read, 1), 2)) ORDER BY relname), '[]')::text FROM ours)
UNION ALL
SELECT 'indexCache', (SELECT coalesce(json_agg(json_build_object(
    'table', i.relname, 'index', i.indexrelname, 'scans', i.idx_scan, 'blocksRead', io.idx_blks_read,
    'blocksHit', io.idx_blks_hit,
    'hitRatio', round(100.0 * io.idx_blks_hit / greatest(io.idx_blks_hit + io.idx_blks_read, 1), 2))
    ORDER BY i.relname, i.indexrelname), '[]')::text
    FROM ours o
    JOIN pg_catalog.pg_stat_user_indexes i ON i.relid = o.relid
    JOIN pg_catalog.pg_statio_user_indexes io ON io.indexrelid = i.indexrelid)
UNION ALL
SELECT 'cacheSummary', (SELECT json_build_object(
    'tables', json_build_object('blocksRead', coalesce(sum(heap_read), 0), 'blocksHit', coalesce(sum(heap_hit), 0),
        'hitRatio', round(100.0 * coalesce(sum(heap_hit), 0) / greatest(sum(heap_hit) + sum(heap_read), 1), 2)),
    'indexes', json_build_object('blocksRead', coalesce(sum(idx_read), 0), 'blocksHit', coalesce(sum(idx_hit), 0),
        'hitRatio', round(100.0 * coalesce(sum(idx_hit), 0) / greatest(sum(idx_hit) + sum(idx_read), 1), 2)))::text FROM ours)
UNION ALL
SELECT 'deadTuples', (SELECT coalesce(json_agg(json_build_object(
    'table', relname, 'live', n_live_tup, 'dead', n_dead_tup,
    'deadPct', round(100.0 * n_dead_tup / greatest(n_live_tup + n_dead_tup, 1), 2)) ORDER BY relname), '[]')::text FROM ours)
UNION ALL
SELECT 'hotUpdates', (SELECT coalesce(json_agg(json_build_object(
    'table', relname, 'updates', n_tup_upd, 'hotUpdates', n_tup_hot_upd,
    'hotPct', round(100.0 * n_tup_hot_upd / greatest(n_tup_upd, 1), 2)) ORDER BY relname), '[]')::text FROM ours)
UNION ALL
SELECT 'activeQueries', (SELECT coalesce(json_agg(json_build_object(
    'pid', pid, 'application', application_name, 'state', state, 'waitEvent', wait_event,
    'durationMs', round(1000 * extract(epoch FROM now() - query_start)), 'query', left(query, 500))
    ORDER BY query_start), '[]')::text
    FROM pg_catalog.pg_stat_activity
    WHERE datname = current_database() AND usename = current_user AND state <> 'idle' AND pid <> pg_backend_pid()
      -- Servers of all versions: what they know stands behind the slash.
      AND split_part(application_name, '/', 1) = split_part(current_setting('application_name'), '/', 1))
UNION ALL
SELECT 'autovacuumStatus', (SELECT coalesce(json_agg(json_build_object(
    'table', relname, 'lastVacuum', last_vacuum, 'lastAutovacuum', last_autovacuum, 'lastAutoanalyze', last_autoanalyze,
    'vacuumCount', vacuum_count, 'autovacuumCount', autovacuum_count) ORDER BY relname), '[]')::text FROM ours)
UNION ALL
SELECT 'bufferConfig', (SELECT coalesce(json_object_agg(name, setting || coalesce(unit, '')), '{}')::text
    FROM pg_catalog.pg_settings
    WHERE name IN ('shared_buffers', 'effective_cache_size', 'work_mem', 'maintenance_work_mem', 'wal_buffers'))
UNION ALL
SELECT 'tableSizes', (SELECT coalesce(json_agg(json_build_object(
    'table', relname, 'totalBytes', pg_total_relation_size(relid), 'tableBytes', pg_table_size(relid),
    'indexBytes', pg_indexes_size(relid)) ORDER BY pg_total_relation_size(relid) DESC), '[]')::text FROM ours)
