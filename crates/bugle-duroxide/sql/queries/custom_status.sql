-- The custom status, if it is newer than what the caller saw.
SELECT i.custom_status, i.custom_status_version FROM {schema}.instances i
WHERE i.instance_id = $1 AND i.custom_status_version > $2
