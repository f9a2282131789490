-- What of lanes is in the sums now.
INSERT INTO {schema}.lane_tallies (bucket, lane_id, queue_id, head, tail)
SELECT $1, u.* FROM unnest($2::uuid[], $3::uuid[], $4::bigint[], $5::bigint[]) AS u (lane_id, queue_id, head, tail)
ON CONFLICT (bucket, lane_id) DO UPDATE SET head = excluded.head, tail = excluded.tail
