-- An instant as microseconds since the epoch.
CREATE OR REPLACE FUNCTION {schema}.micros(at timestamptz) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT (extract(epoch FROM at) * 1000000)::bigint
$$;
