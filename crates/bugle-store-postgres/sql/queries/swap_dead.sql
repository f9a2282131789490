-- Dead letters of the cursors that this call has just exchanged, and of no others.
INSERT INTO {schema}.dead_letters (bucket, id, queue_id, lane_id, partition, group_name, at_offset, message,
                                   transaction_id, error, attempts, created_at, failed_at)
SELECT $1, u.id, u.queue_id, u.dead_lane, u.partition, u.dead_group, u.at_offset, u.message,
       u.transaction_id, u.error, u.attempts, u.created_at, u.failed_at
FROM unnest($3::uuid[], $4::text[], $5::uuid[], $6::uuid[], $7::uuid[], $8::text[], $9::text[], $10::bigint[],
            $11::bytea[], $12::text[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[])
     AS u (lane_id, group_name, id, queue_id, dead_lane, partition, dead_group, at_offset, message,
           transaction_id, error, attempts, created_at, failed_at)
{cursor_moved}
ON CONFLICT (bucket, id) DO NOTHING
