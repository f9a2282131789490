-- Until the import has ended nobody else writes, neither there nor here. Whoever is still at it is not waited for long.
SET LOCAL lock_timeout = '10s';
LOCK TABLE {source}.instances, {source}.executions, {source}.history, {source}.orchestrator_queue, {source}.worker_queue,
    {source}.instance_locks, {source}.sessions, {source}.kv_store, {source}.kv_delta IN SHARE MODE;
LOCK TABLE {schema}.instances, {schema}.executions, {schema}.history, {schema}.messages, {schema}.activities,
    {schema}.sessions, {schema}.kv_store, {schema}.kv_delta IN SHARE ROW EXCLUSIVE MODE;
