-- What the server is, and the settings that what was answered relies on.
SELECT current_setting('server_version'), current_setting('server_encoding'), pg_is_in_recovery(),
    current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
    current_setting('autovacuum'), EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1),
    EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename = 'migrations')
