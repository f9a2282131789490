-- Extend a live lease; never revive, never shorten.
CREATE OR REPLACE FUNCTION {schema}.renew_orchestration(_instance text, _token uuid, _lease interval) RETURNS boolean
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
    -- The row is locked before the clock is read: time may pass in waiting.
    PERFORM FROM {schema}.instances i WHERE i.instance_id = _instance AND i.lock_token = _token FOR UPDATE;
    UPDATE {schema}.instances i SET due_at = greatest(i.due_at, clock_timestamp() + _lease)
    WHERE i.instance_id = _instance AND i.lock_token = _token AND i.due_at > clock_timestamp();
    RETURN FOUND;
END $$;
