-- Direct children of an instance.
SELECT i.instance_id FROM {schema}.instances i WHERE i.parent_instance_id = $1 ORDER BY i.created_at, i.instance_id
