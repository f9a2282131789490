-- An instance's parent.
SELECT i.parent_instance_id FROM {schema}.instances i WHERE i.instance_id = $1 AND i.name IS NOT NULL
