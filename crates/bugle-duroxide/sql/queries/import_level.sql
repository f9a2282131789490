-- The migrations that were applied to the source.
SELECT coalesce(array_agg(m.version ORDER BY m.version), '{}') FROM {source}._duroxide_migrations m
