-- Extend a live lease of an activity and note that its session is in use; never revive, never shorten.
CREATE OR REPLACE FUNCTION {schema}.renew_activity(_id bigint, _token uuid, _lease interval) RETURNS boolean
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    _session text;
BEGIN
    -- The row is locked before the clock is read: time may pass in waiting.
    PERFORM FROM {schema}.activities a WHERE a.id = _id AND a.lock_token = _token FOR UPDATE;
    UPDATE {schema}.activities a SET due_at = greatest(a.due_at, clock_timestamp() + _lease)
    WHERE a.id = _id AND a.lock_token = _token AND a.due_at > clock_timestamp()
    RETURNING a.session_id INTO _session;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF _session IS NOT NULL THEN
        PERFORM {schema}.touch_session(_session);
    END IF;
    RETURN true;
END $$;
