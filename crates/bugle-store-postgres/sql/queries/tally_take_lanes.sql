-- Take lanes that are gone out of the sums of their queues.
UPDATE {schema}.queue_tallies q
SET lanes = q.lanes - s.lanes,
    filled = q.filled - s.filled,
    kept = q.kept - s.kept,
    appended = q.appended - s.appended,
    version = {this_version}
FROM (
    SELECT t.queue_id, count(*) AS lanes, count(*) FILTER (WHERE t.head > t.tail) AS filled,
           sum(t.head - t.tail)::bigint AS kept, sum(t.head)::bigint AS appended
    FROM {schema}.lane_tallies t
    WHERE t.bucket = $1 AND t.lane_id = ANY ($2::uuid[])
    GROUP BY t.queue_id
) s
WHERE q.bucket = $1 AND q.queue_id = s.queue_id
