-- Keep others from changing tallies of a bucket until the transaction ends, which changes sums.
UPDATE {schema}.tally_state
SET version = {next_version}, recent = (recent || {next_version})[greatest(cardinality(recent) - 62, 1):]
WHERE bucket = $1
