-- Values of ended executions, and what running ones changed.
WITH kept AS (
    INSERT INTO {schema}.kv_store (instance_id, key, value, updated_at_ms)
    SELECT {schema}.stored(k.instance_id), {schema}.stored(k.key), {schema}.stored(k.value), k.last_updated_at_ms
    FROM {source}.kv_store k
    RETURNING 1
), changed AS (
    INSERT INTO {schema}.kv_delta (instance_id, key, value, updated_at_ms)
    SELECT {schema}.stored(d.instance_id), {schema}.stored(d.key), {schema}.stored(d.value), d.last_updated_at_ms
    FROM {source}.kv_delta d
    RETURNING 1
)
SELECT (SELECT count(*) FROM kept) + (SELECT count(*) FROM changed)
