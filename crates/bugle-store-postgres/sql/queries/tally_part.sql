-- Like tally_hold, by who deletes rows of sums: nobody can go on from what was read before.
UPDATE {schema}.tally_state SET version = {next_version}, recent = ARRAY[{next_version}] WHERE bucket = $1
