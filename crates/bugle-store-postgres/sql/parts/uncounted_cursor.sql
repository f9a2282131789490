-- Whether a cursor (d) differs from what is in the sums.
NOT EXISTS (
    SELECT FROM {schema}.cursor_tallies n
    WHERE n.bucket = $1 AND n.lane_id = d.lane_id AND n.group_name = d.group_name
      AND n.committed = d.committed AND n.consumed = d.consumed AND n.served_at = d.served_at
      AND n.lease_until IS NOT DISTINCT FROM d.lease_until AND n.lease_end IS NOT DISTINCT FROM d.lease_end)
