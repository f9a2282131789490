-- The version of a change of sums. By the clock, so that one that was lost with a crash does not come back as another.
greatest(version + 1, (extract(epoch FROM now()) * 1000000)::bigint)
