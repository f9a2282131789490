-- The first rows of the lanes after ($1, $2), lane after lane: at most $4 lanes, among which $5 rows are divided, up to the row
-- that reaches $6 bytes. Queues of $3 are passed by in one step each, whatever waits for them. Each row also tells how many
-- steps there were and how many rows a lane could have, so that the caller knows whether there may be more.
--
-- A step goes to the next name behind the last one, by the key: its cost does not depend on how many rows a lane has. No name
-- is as long as the one that stands for "behind all partitions".
WITH RECURSIVE lane (n, queue, partition) AS (
    (SELECT 1::bigint, i.queue, i.partition
     FROM {schema}.inbox i
     WHERE (i.queue, i.partition) > ($1::text, $2::text)
     ORDER BY i.queue, i.partition
     LIMIT 1)
    UNION ALL
    SELECT lane.n + 1, f.queue, f.partition
    FROM lane
    CROSS JOIN LATERAL (
        SELECT i.queue, i.partition
        FROM {schema}.inbox i
        WHERE (i.queue, i.partition)
            > (lane.queue, CASE WHEN lane.queue = ANY ($3::text[]) THEN repeat(chr(1114111), 64) ELSE lane.partition END)
        ORDER BY i.queue, i.partition
        LIMIT 1
    ) f
    WHERE lane.n < $4::bigint
), wanted AS MATERIALIZED (
    SELECT lane.n, lane.queue, lane.partition FROM lane WHERE lane.queue <> ALL ($3::text[])
), share AS MATERIALIZED (
    SELECT greatest(1, $5::bigint / greatest(1, count(*))) AS rows FROM wanted
)
SELECT x.queue, x.partition, x.id, x.transaction_id, x.payload, x.written_at,
       (SELECT count(*) FROM lane), (SELECT share.rows FROM share)
FROM (
    SELECT w.n, w.queue, w.partition, r.id, r.transaction_id, r.payload, r.written_at,
           sum(octet_length(r.payload)) OVER (ORDER BY w.n, r.id) - octet_length(r.payload) AS before
    FROM wanted w
    CROSS JOIN LATERAL (
        SELECT i.id, i.transaction_id, i.payload, i.written_at
        FROM {schema}.inbox i
        WHERE i.queue = w.queue AND i.partition = w.partition
        ORDER BY i.id
        LIMIT (SELECT share.rows FROM share)
    ) r
) x
WHERE x.before < $6::bigint
ORDER BY x.n, x.id
