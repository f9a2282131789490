-- Move the heads of the locked lanes s forward.
UPDATE {schema}.lanes l
SET head = s.head + s.count,
    written_at = s.stamp,
    written_s = s.stamp / 1000000,
    tail_at = coalesce(l.tail_at, s.stamp),
    greatest = greatest(l.greatest, s.greatest),
    writer = $2,
    touched_s = s.touched
FROM s
WHERE {locked_lane}
