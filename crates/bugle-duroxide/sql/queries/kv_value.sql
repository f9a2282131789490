-- One value: what the running execution changed comes before what ended ones left.
SELECT CASE WHEN d.key IS NOT NULL THEN d.value ELSE k.value END
FROM (SELECT FROM (VALUES (1)) AS v) AS one
LEFT JOIN {schema}.kv_delta d ON d.instance_id = $1 AND d.key = $2
LEFT JOIN {schema}.kv_store k ON k.instance_id = $1 AND k.key = $2
