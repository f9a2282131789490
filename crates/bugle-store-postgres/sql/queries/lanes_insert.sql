-- Create lanes of queues that exist. Sharing the queues' keys keeps them from being deleted meanwhile.
INSERT INTO {schema}.lanes (bucket, lane_id, queue_id, name, head, tail, created_at, written_at, written_s,
                            touched_s)
SELECT $1, u.lane_id, u.queue_id, u.name, 0, 0, u.at, u.at, u.at / 1000000,
       CASE WHEN u.at / 1000000 < $6 - 30 THEN $6 END
FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::bigint[]) AS u (lane_id, queue_id, name, at)
JOIN {schema}.queues q ON q.queue_id = u.queue_id
ORDER BY u.lane_id
FOR KEY SHARE OF q
ON CONFLICT (bucket, lane_id) DO NOTHING
