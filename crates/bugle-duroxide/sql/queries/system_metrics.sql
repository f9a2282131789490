-- How much there is.
SELECT
    (SELECT count(*) FROM {schema}.instances WHERE name IS NOT NULL),
    (SELECT count(*) FROM {schema}.executions),
    (SELECT count(*) FROM {schema}.history),
    count(*) FILTER (WHERE x.status = 'Running'),
    count(*) FILTER (WHERE x.status = 'Completed'),
    count(*) FILTER (WHERE x.status = 'Failed')
FROM {schema}.instances i
JOIN {schema}.executions x ON x.instance_id = i.instance_id AND x.execution_id = i.execution_id
