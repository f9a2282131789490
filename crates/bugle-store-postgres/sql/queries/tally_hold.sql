-- Keep others from changing tallies of a bucket until the transaction ends.
SELECT t.bucket FROM {schema}.tally_state t WHERE t.bucket = $1 FOR UPDATE
