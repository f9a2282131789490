-- How many dead letters each queue has.
SELECT d.queue_id, count(*) FROM {schema}.dead_letters d GROUP BY d.queue_id
