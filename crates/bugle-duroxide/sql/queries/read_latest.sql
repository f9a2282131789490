-- The history of an instance's latest execution.
SELECT h.event FROM {schema}.history h
WHERE h.instance_id = $1 AND h.execution_id = coalesce(
    (SELECT i.execution_id FROM {schema}.instances i WHERE i.instance_id = $1),
    (SELECT max(x.execution_id) FROM {schema}.history x WHERE x.instance_id = $1))
ORDER BY h.event_id
