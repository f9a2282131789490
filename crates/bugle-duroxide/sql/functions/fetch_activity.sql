-- Take one activity that is due: untagged ones if `_plain`, those with one of `_tags`, or all if `_tags` is NULL. With an
-- owner also those of a session that the owner holds or that nobody holds, which it then holds. With nothing to take,
-- `id` is NULL. `more` tells whether there is more to do now, and if there is not, `next` when to look again; `owners` are
-- those who alone may take what else is ready.
CREATE OR REPLACE FUNCTION {schema}.fetch_activity(
    _token uuid, _lease interval, _plain boolean, _tags text[], _owner text, _session_lease interval,
    OUT now bigint, OUT next bigint, OUT more boolean, OUT owners text[],
    OUT id bigint, OUT item text, OUT attempts integer, OUT session text)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    _now timestamptz := clock_timestamp();
    _all text[];
    _tag text;
    _row record;
    _skip bigint[] := '{}';
    _next timestamptz;
BEGIN
    IF _tags IS NULL THEN
        _tags := {schema}.tags_in_use();
    END IF;
    -- The queue whose head has waited longest comes first.
    SELECT array_agg(q.tag ORDER BY q.head) INTO _all FROM (
        SELECT t.tag, (SELECT a.due_at FROM {schema}.activities a WHERE a.tag = t.tag ORDER BY a.due_at, a.id LIMIT 1) AS head
        FROM unnest(_tags) AS t (tag)
        UNION ALL
        SELECT NULL, (SELECT a.due_at FROM {schema}.activities a WHERE a.tag IS NULL ORDER BY a.due_at, a.id LIMIT 1)
        WHERE _plain
    ) AS q WHERE q.head <= _now;

    FOREACH _tag IN ARRAY coalesce(_all, '{}') LOOP
        LOOP
            IF _tag IS NULL THEN
                SELECT a.id, a.item, a.attempts, a.session_id INTO _row
                FROM {schema}.activities a LEFT JOIN {schema}.sessions s ON s.session_id = a.session_id
                WHERE a.tag IS NULL AND a.due_at <= _now AND a.id <> ALL (_skip)
                    AND (a.session_id IS NULL OR (_owner IS NOT NULL
                        AND (s.session_id IS NULL OR s.owner_id = _owner OR s.locked_until <= _now)))
                ORDER BY a.due_at, a.id LIMIT 1 FOR UPDATE OF a SKIP LOCKED;
            ELSE
                SELECT a.id, a.item, a.attempts, a.session_id INTO _row
                FROM {schema}.activities a LEFT JOIN {schema}.sessions s ON s.session_id = a.session_id
                WHERE a.tag = _tag AND a.due_at <= _now AND a.id <> ALL (_skip)
                    AND (a.session_id IS NULL OR (_owner IS NOT NULL
                        AND (s.session_id IS NULL OR s.owner_id = _owner OR s.locked_until <= _now)))
                ORDER BY a.due_at, a.id LIMIT 1 FOR UPDATE OF a SKIP LOCKED;
            END IF;
            EXIT WHEN NOT FOUND;
            -- Somebody else may have got the session meanwhile: then this item is theirs, and the next one is looked for.
            IF _row.session_id IS NULL OR {schema}.hold_session(_row.session_id, _owner, _session_lease) THEN
                UPDATE {schema}.activities a
                SET lock_token = _token, due_at = clock_timestamp() + _lease, attempts = a.attempts + 1
                WHERE a.id = _row.id;
                id := _row.id;
                item := _row.item;
                attempts := _row.attempts + 1;
                session := _row.session_id;
                EXIT;
            END IF;
            _skip := _skip || _row.id;
        END LOOP;
        EXIT WHEN id IS NOT NULL;
    END LOOP;

    now := {schema}.micros(clock_timestamp());
    -- Others may be taking these right now. Then nobody can say yet when they will be due again.
    more := _all IS NOT NULL AND EXISTS (
        SELECT FROM {schema}.activities a LEFT JOIN {schema}.sessions s ON s.session_id = a.session_id
        WHERE a.due_at <= _now AND CASE WHEN a.tag IS NULL THEN _plain ELSE a.tag = ANY (_tags) END
            AND (a.session_id IS NULL OR (_owner IS NOT NULL
                AND (s.session_id IS NULL OR s.owner_id = _owner OR s.locked_until <= _now))));
    IF id IS NULL OR NOT more THEN
        SELECT least(
            CASE WHEN _plain THEN
                (SELECT min(a.due_at) FROM {schema}.activities a WHERE a.tag IS NULL AND a.due_at > _now)
            END,
            (SELECT min((SELECT min(a.due_at) FROM {schema}.activities a WHERE a.tag = t.tag AND a.due_at > _now))
             FROM unnest(_tags) AS t (tag)),
            (SELECT min(s.locked_until) FROM {schema}.sessions s WHERE s.locked_until > _now AND _owner IS NOT NULL
             AND EXISTS (SELECT FROM {schema}.activities a WHERE a.session_id = s.session_id)))
        INTO _next;
        next := {schema}.micros(_next);
    END IF;
    IF _owner IS NOT NULL AND _all IS NOT NULL THEN
        SELECT array_agg(DISTINCT s.owner_id) INTO owners
        FROM {schema}.sessions s JOIN {schema}.activities a ON a.session_id = s.session_id
        WHERE s.locked_until > _now AND a.due_at <= _now AND s.owner_id <> _owner;
    END IF;
END $$;
