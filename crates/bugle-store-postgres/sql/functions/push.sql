-- Put a message into the inbox, in the transaction of whoever calls; docs/inbox.md is its manual. Answers the transaction id.
--
-- It runs with its owner's rights, so that a role needs nothing but EXECUTE. Everything that a push could be refused for later
-- is refused here, where the caller's transaction can still be undone.
CREATE OR REPLACE FUNCTION {schema}.push(queue text, partition text, payload text, transaction_id text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, {schema}, pg_temp
AS $$
DECLARE
    to_partition text := coalesce(push.partition, 'Default');
    id text := nullif(push.transaction_id, '');
    channel text;
BEGIN
    IF push.queue IS NULL OR push.queue = '' THEN
        RAISE EXCEPTION 'queue must not be empty' USING ERRCODE = 'invalid_parameter_value';
    ELSIF octet_length(push.queue) > 255 THEN
        RAISE EXCEPTION 'queue is longer than 255 bytes' USING ERRCODE = 'invalid_parameter_value';
    ELSIF starts_with(push.queue, '__system_') THEN
        RAISE EXCEPTION 'queue must not begin with __system_, which is the server''s own'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF to_partition = '' THEN
        RAISE EXCEPTION 'partition must not be empty' USING ERRCODE = 'invalid_parameter_value';
    ELSIF octet_length(to_partition) > 255 THEN
        RAISE EXCEPTION 'partition is longer than 255 bytes' USING ERRCODE = 'invalid_parameter_value';
    ELSIF octet_length(id) > 255 THEN
        RAISE EXCEPTION 'transaction_id is longer than 255 bytes' USING ERRCODE = 'invalid_parameter_value';
    ELSIF push.payload IS NULL THEN
        RAISE EXCEPTION 'payload must not be NULL (JSON''s null is written ''null'')'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF octet_length(push.payload) > 67108864 THEN
        RAISE EXCEPTION 'payload is longer than 67108864 bytes' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    BEGIN
        PERFORM push.payload::json;
    EXCEPTION WHEN invalid_text_representation OR untranslatable_character OR statement_too_complex THEN
        RAISE EXCEPTION 'payload is not JSON: %', SQLERRM USING ERRCODE = 'invalid_parameter_value';
    END;
    IF id IS NULL THEN
        -- A UUID of version 7: its time goes before what is random, and the version's three bits are set in what version 4 has.
        id := encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
            PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
            52, 1), 53, 1), 'hex')::uuid::text;
    END IF;
    INSERT INTO {schema}.inbox (queue, partition, transaction_id, written_at, payload)
    VALUES (push.queue, to_partition, id, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, push.payload);
    IF coalesce(nullif(current_setting('bugle.notify', true), ''), 'on') NOT IN ('off', 'false', 'no', '0') THEN
        -- The channel that the servers of this schema listen to: 63 bytes at most, with a hash where it would be longer.
        channel := 'bugle_' || (current_schemas(false))[2];
        IF octet_length(channel) > 63 THEN
            channel := left(channel, (SELECT max(n) FROM generate_series(0, 30) n WHERE octet_length(left(channel, n)) <= 30))
                || '_' || left(encode(sha256(convert_to(channel, 'UTF8')), 'hex'), 32);
        END IF;
        PERFORM pg_notify(channel, 'AQEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE');
    END IF;
    RETURN id;
END
$$;
REVOKE ALL ON FUNCTION {schema}.push(text, text, text, text) FROM PUBLIC;
