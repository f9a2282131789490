-- The second from which on changes may not have been counted.
least(o.since_s, $3::bigint) - 90 FROM {schema}.tally_state o WHERE o.bucket = $1
