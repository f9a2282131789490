-- Dead letters of the cursors that this call has just exchanged, and of no others.
INSERT INTO {schema}.dead_letters (bucket, id, queue_id, lane_id, partition, group_name, at_offset, message,
                                   transaction_id, error, attempts, created_at, failed_at)
SELECT $1, u.id, u.queue_id, u.lane_id, u.partition, u.group_name, u.at_offset, u.message,
       u.transaction_id, u.error, u.attempts, u.created_at, u.failed_at
FROM unnest($3::uuid[], $4::text[], $5::uuid[], $6::uuid[], $7::uuid[], $8::text[], $9::text[], $10::bigint[],
            $11::bytea[], $12::text[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[])
     AS u (of_lane, of_group, id, queue_id, lane_id, partition, group_name, at_offset, message,
           transaction_id, error, attempts, created_at, failed_at)
JOIN LATERAL (
    SELECT k.group_name, k.writer FROM {schema}.cursors k
    WHERE k.bucket = $1 AND k.lane_id = u.of_lane AND k.group_name <= u.of_group
    ORDER BY k.group_name DESC
    LIMIT 1
) c ON c.group_name = u.of_group AND c.writer = $2
ON CONFLICT (bucket, id) DO NOTHING
