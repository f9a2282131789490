-- Sums of queues that changed since version $2, or all if that is not known any more; then $2 is not the second column.
SELECT s.version, s.base, c.*
FROM (
    SELECT o.version, CASE WHEN $2 = ANY (o.recent) THEN $2 ELSE -1 END AS base
    FROM {schema}.tally_state o WHERE o.bucket = $1
) s
CROSS JOIN LATERAL (
    SELECT {lane_sums}
    FROM {schema}.queue_tallies t WHERE t.bucket = $1 AND t.version > s.base AND s.version > s.base
) c
