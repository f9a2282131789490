-- The version of the change of sums that this transaction makes.
(SELECT o.version FROM {schema}.tally_state o WHERE o.bucket = $1)
