-- More history, never over what is there.
INSERT INTO {schema}.history (instance_id, execution_id, event_id, event)
SELECT $1, $2, e.id, e.event FROM unnest($3::bigint[], $4::text[]) AS e (id, event)
