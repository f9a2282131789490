-- All values: what the running execution changed comes before what ended ones left.
SELECT coalesce(d.key, k.key), CASE WHEN d.key IS NOT NULL THEN d.value ELSE k.value END
FROM (SELECT * FROM {schema}.kv_store WHERE instance_id = $1) k
FULL JOIN (SELECT * FROM {schema}.kv_delta WHERE instance_id = $1) d ON d.key = k.key
WHERE d.key IS NULL OR d.value IS NOT NULL
