-- Lanes that were searched and have a whole run of messages not covered by fingerprint_runs yet, and where it begins.
SELECT l.lane_id, l.indexed, greatest(l.indexed, l.tail / 16384 * 16384)
FROM {schema}.lanes l
WHERE l.bucket = $1 AND l.lane_id = ANY ($2::uuid[])
  AND greatest(l.indexed, l.tail / 16384 * 16384) + 16384 <= l.head
