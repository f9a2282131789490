-- Hold rows, and tell of each lane how many are there. Whoever finds one held by another, or gone, takes nothing of its lane.
WITH held AS MATERIALIZED (
    SELECT u.n
    FROM unnest($3::int[], $4::bigint[]) AS u (n, id)
    JOIN {schema}.inbox i ON {inbox_rows}
    ORDER BY i.queue, i.partition, i.id
    FOR UPDATE OF i{skip_locked}
)
SELECT held.n, count(*) FROM held GROUP BY held.n
