-- Executions, with the framework version each is pinned to.
WITH copied AS (
    INSERT INTO {schema}.executions (instance_id, execution_id, status, output, pin, started_at, completed_at)
    SELECT {schema}.stored(x.instance_id), x.execution_id, {schema}.stored(x.status), {schema}.stored(x.output),
        CASE WHEN x.duroxide_version_major IS NOT NULL THEN
            least(x.duroxide_version_major, 999999)::bigint * 1000000000000
            + least(x.duroxide_version_minor, 999999)::bigint * 1000000 + least(x.duroxide_version_patch, 999999) END,
        x.started_at, x.completed_at
    FROM {source}.executions x
    RETURNING 1
)
SELECT count(*) FROM copied
