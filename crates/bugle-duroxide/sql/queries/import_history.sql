-- Histories, event by event, as they are.
WITH copied AS (
    INSERT INTO {schema}.history (instance_id, execution_id, event_id, event)
    SELECT {schema}.stored(h.instance_id), h.execution_id, h.event_id, h.event_data FROM {source}.history h
    RETURNING 1
)
SELECT count(*) FROM copied
