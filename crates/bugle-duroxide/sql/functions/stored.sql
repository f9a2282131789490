-- A string of another schema as it is stored here; see text.rs. It cannot hold a NUL, but the escape character.
CREATE OR REPLACE FUNCTION {schema}.stored(original text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT replace(original, chr(1), chr(1) || chr(1))
$$;
