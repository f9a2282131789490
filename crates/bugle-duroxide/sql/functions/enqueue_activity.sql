-- One activity to run, now.
CREATE OR REPLACE FUNCTION {schema}.enqueue_activity(
    _instance text, _execution bigint, _activity bigint, _item text, _session text, _tag text) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO {schema}.activities (instance_id, execution_id, activity_id, item, session_id, tag)
    VALUES (_instance, _execution, _activity, _item, _session, _tag)
$$;
