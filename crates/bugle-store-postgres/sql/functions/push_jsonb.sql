-- The same for a payload that is jsonb already. It needs the other's EXECUTE as well.
CREATE OR REPLACE FUNCTION {schema}.push(queue text, partition text, payload jsonb, transaction_id text DEFAULT NULL)
RETURNS text LANGUAGE sql VOLATILE PARALLEL UNSAFE
AS $$ SELECT {schema}.push(queue, partition, payload::text, transaction_id) $$;
REVOKE ALL ON FUNCTION {schema}.push(text, text, jsonb, text) FROM PUBLIC;
