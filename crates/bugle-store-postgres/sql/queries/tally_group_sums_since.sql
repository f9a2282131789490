-- The same of groups, also of those without a cursor.
SELECT s.version, s.base, c.*
FROM (
    SELECT o.version, CASE WHEN $2 = ANY (o.recent) THEN $2 ELSE -1 END AS base
    FROM {schema}.tally_state o WHERE o.bucket = $1
) s
CROSS JOIN LATERAL (
    SELECT {group_sums}
    FROM {schema}.group_tallies t WHERE t.bucket = $1 AND t.version > s.base AND s.version > s.base
) c
