-- By who is about to count: keep others from changing tallies of the bucket. What is counted can be counted again: the commit
-- need not wait for the disk. Transactions before the one in the fourth column have ended.
SELECT t.since_s, t.walked, t.settled, {settled}, set_config('synchronous_commit', 'off', true)
FROM {schema}.tally_state t WHERE t.bucket = $1 FOR UPDATE
