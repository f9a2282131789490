-- Give an activity back. Answers when it can be taken again: microseconds, zero for now; NULL if it is not held.
CREATE OR REPLACE FUNCTION {schema}.abandon_activity(
    _id bigint, _token uuid, _delay interval, _ignore_attempt boolean,
    OUT held boolean, OUT own bigint, OUT session text, OUT tag text)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    _due timestamptz;
BEGIN
    UPDATE {schema}.activities a SET
        lock_token = NULL,
        due_at = coalesce(clock_timestamp() + _delay, a.queued_at),
        attempts = greatest(a.attempts - _ignore_attempt::integer, 0)
    WHERE a.id = _id AND a.lock_token = _token
    RETURNING a.due_at, a.session_id, a.tag INTO _due, session, tag;
    held := FOUND;
    own := CASE WHEN _due <= clock_timestamp() THEN 0 ELSE {schema}.micros(_due) END;
END $$;
