-- The tags of waiting activities, found by leaping from one to the next in the index.
CREATE OR REPLACE FUNCTION {schema}.tags_in_use() RETURNS text[]
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE leap AS (
        (SELECT a.tag FROM {schema}.activities a WHERE a.tag IS NOT NULL ORDER BY a.tag LIMIT 1)
        UNION ALL
        SELECT (SELECT a.tag FROM {schema}.activities a WHERE a.tag > leap.tag ORDER BY a.tag LIMIT 1)
        FROM leap WHERE leap.tag IS NOT NULL
    )
    SELECT coalesce(array_agg(tag) FILTER (WHERE tag IS NOT NULL), '{}') FROM leap
$$;
