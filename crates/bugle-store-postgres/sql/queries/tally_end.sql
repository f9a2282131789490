-- Remember how far was counted.
UPDATE {schema}.tally_state SET since_s = $2, walked = $3 WHERE bucket = $1
