-- Remember how far was counted ($4 = what had ended, null = as before), and whether sums change ($5; so they do the first time).
UPDATE {schema}.tally_state
SET since_s = $2, walked = $3, settled = coalesce($4, settled),
    version = CASE WHEN $5 OR version = 0 THEN {next_version} ELSE version END,
    recent = CASE WHEN $5 OR version = 0 THEN (recent || {next_version})[greatest(cardinality(recent) - 62, 1):] ELSE recent END
WHERE bucket = $1
