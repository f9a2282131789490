-- Hold rows, and tell of each lane how many are there. Whoever finds one held by another, or gone, takes nothing of its lane.
WITH held AS MATERIALIZED (
    SELECT u.n
    FROM unnest($1::text[], $2::text[], $3::int[], $4::int[]) WITH ORDINALITY AS u (queue, partition, a, b, n)
    JOIN {schema}.inbox i ON {inbox_rows}
    ORDER BY i.queue, i.partition, i.id
    FOR UPDATE OF i{skip_locked}
)
SELECT held.n::int, count(*) FROM held GROUP BY held.n
