-- Like tally_hold, by who is about to count. What is counted can be counted again: the commit need not wait for the disk.
SELECT t.since_s, t.walked, set_config('synchronous_commit', 'off', true)
FROM {schema}.tally_state t WHERE t.bucket = $1 FOR UPDATE
