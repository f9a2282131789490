-- Give an instance back unprocessed. Delay and attempt count concern the messages of the batch alone.
CREATE OR REPLACE FUNCTION {schema}.abandon_orchestration(
    _instance text, _token uuid, _delay interval, _ignore_attempt boolean, OUT held boolean, OUT own bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    _taken bigint[];
BEGIN
    SELECT i.taken INTO _taken FROM {schema}.instances i
    WHERE i.instance_id = _instance AND i.lock_token = _token FOR UPDATE;
    held := FOUND;
    IF NOT held THEN
        RETURN;
    END IF;
    IF _delay IS NOT NULL OR NOT _ignore_attempt THEN
        UPDATE {schema}.messages m SET
            visible_at = coalesce(clock_timestamp() + _delay, m.visible_at),
            attempts = m.attempts + (NOT _ignore_attempt)::integer
        WHERE m.id = ANY (_taken);
    END IF;
    own := {schema}.release(_instance);
END $$;
