-- What is not in the sums of the lanes after $3, up to $4.
WITH u AS MATERIALIZED (
    SELECT w.lane_id
    FROM {schema}.lanes w
    WHERE w.bucket = $1 AND w.lane_id > $3 AND w.lane_id <= $4
    ORDER BY w.lane_id
)
{uncounted}
