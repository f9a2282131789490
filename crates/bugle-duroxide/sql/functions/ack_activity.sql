-- An activity has run: it goes, and its completion comes. `held` is false if the lease is not the caller's any more,
-- which is also how a cancelled activity learns it.
CREATE OR REPLACE FUNCTION {schema}.ack_activity(
    _id bigint, _token uuid, _to text, _item text, _visible timestamptz,
    OUT held boolean, OUT ready bigint, OUT later bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    _due timestamptz;
    _session text;
BEGIN
    SELECT a.due_at, a.session_id INTO _due, _session FROM {schema}.activities a
    WHERE a.id = _id AND a.lock_token = _token FOR UPDATE;
    held := FOUND AND _due > clock_timestamp();
    IF NOT held THEN
        RETURN;
    END IF;
    DELETE FROM {schema}.activities a WHERE a.id = _id;
    IF _session IS NOT NULL THEN
        PERFORM {schema}.touch_session(_session);
    END IF;
    IF _to IS NOT NULL THEN
        SELECT d.ready, d.later INTO ready, later
        FROM {schema}.deliver(NULL, ARRAY[_to], ARRAY[_item], ARRAY[_visible], ARRAY[false]) d;
    END IF;
END $$;
