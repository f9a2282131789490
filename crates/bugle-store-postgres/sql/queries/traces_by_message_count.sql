-- How many traces a message has.
SELECT count(*) FROM {schema}.traces t WHERE t.lane_id = $1 AND t.transaction_id = $2
