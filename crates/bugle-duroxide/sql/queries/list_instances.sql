-- Instances that exist, newest first.
SELECT i.instance_id FROM {schema}.instances i WHERE i.name IS NOT NULL ORDER BY i.created_at DESC, i.instance_id
