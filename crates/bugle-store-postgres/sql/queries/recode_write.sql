-- Put other bodies in the place of those that were read. Each gets another id: it is another segment for whoever keeps it.
UPDATE {schema}.segments g SET body = u.body, segment_id = u.next_id
FROM unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[]) AS u (lane_id, base, id, next_id, body)
WHERE g.bucket = $1 AND g.lane_id = u.lane_id AND g.base = u.base AND g.segment_id = u.id
RETURNING 1
