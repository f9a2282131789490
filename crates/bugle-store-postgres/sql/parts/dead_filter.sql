-- Which dead letters (d), by $1 to $8.
    ($1::uuid IS NULL OR d.queue_id = $1) AND ($2::uuid IS NULL OR d.lane_id = $2)
  AND ($3::text IS NULL OR d.group_name = $3) AND ($4::text IS NULL OR d.transaction_id = $4)
  AND ($5::uuid IS NULL OR d.id = $5) AND d.failed_at >= $6 AND d.failed_at < $7
  AND ($8::text IS NULL OR strpos(d.error, $8) > 0)
