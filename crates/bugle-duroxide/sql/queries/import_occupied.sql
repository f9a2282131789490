-- A table here that is not empty.
SELECT 'instances' WHERE EXISTS (SELECT FROM {schema}.instances)
UNION ALL SELECT 'executions' WHERE EXISTS (SELECT FROM {schema}.executions)
UNION ALL SELECT 'history' WHERE EXISTS (SELECT FROM {schema}.history)
UNION ALL SELECT 'messages' WHERE EXISTS (SELECT FROM {schema}.messages)
UNION ALL SELECT 'activities' WHERE EXISTS (SELECT FROM {schema}.activities)
UNION ALL SELECT 'kv_store' WHERE EXISTS (SELECT FROM {schema}.kv_store)
UNION ALL SELECT 'kv_delta' WHERE EXISTS (SELECT FROM {schema}.kv_delta)
LIMIT 1
