-- All groups.
SELECT {group} FROM {schema}.groups g ORDER BY g.queue_id, g.group_name
