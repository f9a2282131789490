-- What the provider keeps. Times are the database's; payloads are text that no statement here ever looks into.

-- One row for each instance that was ever sent a message. It is the unit of claiming: whoever holds `lock_token`
-- processes the instance, and `due_at` is the one instant that matters to everybody else.
CREATE TABLE {schema}.instances (
    instance_id text PRIMARY KEY,
    -- When a fetch may next take this instance: when its lease ends while it is locked, else when its first message
    -- becomes visible; NULL while it has no message.
    due_at timestamptz,
    lock_token uuid,
    -- The messages of the batch that the holder of the lock has.
    taken bigint[],
    -- The current execution; NULL until the first turn was acknowledged, for until then the instance does not exist.
    execution_id bigint,
    name text,
    version text,
    -- Framework version the current execution is pinned to, as major * 10^12 + minor * 10^6 + patch.
    pin bigint,
    parent_instance_id text,
    custom_status text,
    custom_status_version bigint NOT NULL DEFAULT 0,
    created_at timestamptz,
    updated_at timestamptz
) WITH (fillfactor = 80);
CREATE INDEX instances_due ON {schema}.instances (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX instances_parent ON {schema}.instances (parent_instance_id) WHERE parent_instance_id IS NOT NULL;

CREATE TABLE {schema}.executions (
    instance_id text NOT NULL,
    execution_id bigint NOT NULL,
    status text NOT NULL DEFAULT 'Running',
    output text,
    pin bigint,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    completed_at timestamptz,
    PRIMARY KEY (instance_id, execution_id)
);

CREATE TABLE {schema}.history (
    instance_id text NOT NULL,
    execution_id bigint NOT NULL,
    event_id bigint NOT NULL,
    event text NOT NULL,
    PRIMARY KEY (instance_id, execution_id, event_id)
);

-- Messages for orchestrations.
CREATE TABLE {schema}.messages (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance_id text NOT NULL,
    item text NOT NULL,
    visible_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Attempts that ended without an acknowledgement. The one under way is not counted yet.
    attempts integer NOT NULL DEFAULT 0,
    -- Dropped if it comes to an instance that was never started.
    droppable boolean NOT NULL DEFAULT false,
    -- Its instance's `due_at` takes it into account. Rows inserted by hand do not say so and are found by the fallback.
    announced boolean NOT NULL DEFAULT false
);
CREATE INDEX messages_instance ON {schema}.messages (instance_id, id);
CREATE INDEX messages_by_hand ON {schema}.messages (id) WHERE NOT announced;

-- Activities to run.
CREATE TABLE {schema}.activities (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance_id text NOT NULL,
    execution_id bigint NOT NULL,
    activity_id bigint NOT NULL,
    item text NOT NULL,
    session_id text,
    tag text,
    -- When a fetch may take it: when its lease ends while it is locked, else when it is visible.
    due_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Its place in the queue; an abandoned item goes back to it.
    queued_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    lock_token uuid,
    attempts integer NOT NULL DEFAULT 0
) WITH (fillfactor = 80);
CREATE INDEX activities_plain ON {schema}.activities (due_at, id) WHERE tag IS NULL;
CREATE INDEX activities_tagged ON {schema}.activities (tag, due_at, id) WHERE tag IS NOT NULL;
CREATE INDEX activities_session ON {schema}.activities (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX activities_instance ON {schema}.activities (instance_id, execution_id, activity_id);

CREATE TABLE {schema}.sessions (
    session_id text PRIMARY KEY,
    owner_id text NOT NULL,
    locked_until timestamptz NOT NULL,
    last_activity_at timestamptz NOT NULL
);

-- Values of ended executions, and what the running one changed (NULL: removed).
CREATE TABLE {schema}.kv_store (
    instance_id text NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    updated_at_ms bigint NOT NULL,
    PRIMARY KEY (instance_id, key)
);
CREATE TABLE {schema}.kv_delta (
    instance_id text NOT NULL,
    key text NOT NULL,
    value text,
    updated_at_ms bigint NOT NULL,
    PRIMARY KEY (instance_id, key)
);
