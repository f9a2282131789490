-- One group.
SELECT {group} FROM {schema}.groups g WHERE g.queue_id = $1 AND g.group_name = $2
