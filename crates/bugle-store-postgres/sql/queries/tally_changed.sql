-- What changed lately and is not in the sums: since the last time, less as long as a change may take to be committed ($3 is
-- the store's clock in seconds; it may have been set back meanwhile). Of those only rows written by transactions that may not
-- have ended then. How a kept plan is held to that is told by survey.sql.
WITH u AS MATERIALIZED (
    SELECT w.lane_id
    FROM {schema}.lanes w
    WHERE w.bucket = $1
      AND w.written_s BETWEEN (SELECT {counted_until}) AND (SELECT 9223372036854775807){unsettled}
    UNION
    SELECT w.lane_id
    FROM {schema}.lanes w
    WHERE w.bucket = $1
      AND w.touched_s BETWEEN (SELECT {counted_until}) AND (SELECT 9223372036854775807){unsettled}
    UNION
    SELECT w.lane_id
    FROM {schema}.cursors w
    WHERE w.bucket = $1
      AND w.changed_s BETWEEN (SELECT {counted_until}) AND (SELECT 9223372036854775807){unsettled}
)
{uncounted}
