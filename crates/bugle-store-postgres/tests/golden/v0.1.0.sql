--
-- PostgreSQL database dump
--

\restrict xUsRT1aYwYZvHjCYsjSdtFS19N1PMjPiEEpAsOeXIaqbpblEKGcncLo8sLSwO7Y

-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: bugle_golden_schema; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA bugle_golden_schema;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: cursor_tallies; Type: TABLE; Schema: bugle_golden_schema; Owner: -
--

CREATE TABLE bugle_golden_schema.cursor_tallies (
    bucket integer NOT NULL,
    lane_id uuid NOT NULL,
    group_name text NOT NULL COLLATE pg_catalog."C",
    queue_id uuid NOT NULL,
    committed bigint NOT NULL,
    consumed bigint NOT NULL,
    served_at bigint NOT NULL,
    lease_until bigint,
    lease_end bigint,
    passed bigint NOT NULL,
    finished bigint NOT NULL,
    leased bigint NOT NULL
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.05', vacuum_truncate=off);


--
-- Name: cursors; Type: TABLE; Schema: bugle_golden_schema; Owner: -
--

CREATE TABLE bugle_golden_schema.cursors (
    bucket integer NOT NULL,
    lane_id uuid NOT NULL,
    group_name text NOT NULL COLLATE pg_catalog."C",
    epoch bigint NOT NULL,
    committed bigint NOT NULL,
    lease_id uuid,
    lease_until bigint,
    lease_end bigint,
    attempts bigint NOT NULL,
    deliveries bigint NOT NULL,
    not_before bigint NOT NULL,
    served_at bigint NOT NULL,
    consumed bigint NOT NULL,
    writer bigint NOT NULL,
    changed_s bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000', autovacuum_analyze_scale_factor='0.05', vacuum_truncate=off);


--
-- Name: dead_letters; Type: TABLE; Schema: bugle_golden_schema; Owner: -
--

CREATE TABLE bugle_golden_schema.dead_letters (
    bucket integer NOT NULL,
    id uuid NOT NULL,
    queue_id uuid NOT NULL,
    lane_id uuid NOT NULL,
    partition text NOT NULL COLLATE pg_catalog."C",
    group_name text NOT NULL COLLATE pg_catalog."C",
    at_offset bigint NOT NULL,
    message bytea NOT NULL,
    transaction_id text NOT NULL COLLATE pg_catalog."C",
    error text NOT NULL COLLATE pg_catalog."C",
    attempts bigint NOT NULL,
    created_at bigint NOT NULL,
    failed_at bigint NOT NULL,
    counted boolean DEFAULT false NOT NULL
);


--
-- Name: fingerprint_runs; Type: TABLE; Schema: bugle_golden_schema; Owner: -
--

CREATE TABLE bugle_golden_schema.fingerprint_runs (
    bucket integer NOT NULL,
    lane_id uuid NOT NULL,
    part integer NOT NULL,
    run bigint NOT NULL,
    newest bigint NOT NULL,
    prints bigint[] NOT NULL,
    offsets integer[] NOT NULL
)
WITH (vacuum_truncate=off);
ALTER TABLE ONLY bugle_golden_schema.fingerprint_runs ALTER COLUMN prints SET STORAGE EXTERNAL;


--
-- Name: group_tallies; Type: TABLE; Schema: bugle_golden_schema; Owner: -
--

CREATE TABLE bugle_golden_schema.group_tallies (
    bucket integer NOT NULL,
    queue_id uuid NOT NULL,
    group_name text NOT NULL COLLATE pg_catalog."C",
    cursors bigint NOT NULL,
    passed bigint NOT NULL,
    finished bigint NOT NULL,
    consumed bigint NOT NULL,
    served_at bigint NOT NULL,
    version bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.05', vacuum_truncate=off);


--
-- Name: groups; Type: TABLE; Schema: bugle_golden_schema; Owner: -
--

CREATE TABLE bugle_golden_schema.groups (
    queue_id uuid NOT NULL,
    group_name text NOT NULL COLLATE pg_catalog."C",
    start_kind integer NOT NULL,
    start_at bigint NOT NULL,
    conflation boolean NOT NULL,
    created_at bigint NOT NULL
);


--
-- Name: lane_tallies; Type: TABLE; Schema: bugle_golden_schema; Owner: -
--

CREATE TABLE bugle_golden_schema.lane_tallies (
    bucket integer NOT NULL,
    lane_id uuid NOT NULL,
    queue_id uuid NOT NULL,
    head bigint NOT NULL,
    tail bigint NOT NULL
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.05', vacuum_truncate=off);


--
-- Name: lanes; Type: TABLE; Schema: bugle_golden_schema; Owner: -
--

CREATE TABLE bugle_golden_schema.lanes (
    bucket integer NOT NULL,
    lane_id uuid NOT NULL,
    queue_id uuid NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    head bigint NOT NULL,
    tail bigint NOT NULL,
    created_at bigint NOT NULL,
    written_at bigint NOT NULL,
    written_s bigint NOT NULL,
    tail_at bigint,
    writer bigint DEFAULT 0 NOT NULL,
    "greatest" uuid,
    indexed bigint DEFAULT 0 NOT NULL,
    touched_s bigint
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000', autovacuum_analyze_scale_factor='0.05', vacuum_truncate=off);


--
-- Name: meta; Type: TABLE; Schema: bugle_golden_schema; Owner: -
--

CREATE TABLE bugle_golden_schema.meta (
    id integer NOT NULL,
    buckets integer NOT NULL,
    catalog_version bigint NOT NULL,
    push_maintenance boolean DEFAULT false NOT NULL,
    pop_maintenance boolean DEFAULT false NOT NULL,
    CONSTRAINT meta_buckets_check CHECK ((buckets > 0)),
    CONSTRAINT meta_id_check CHECK ((id = 1))
);


--
-- Name: migrations; Type: TABLE; Schema: bugle_golden_schema; Owner: -
--

CREATE TABLE bugle_golden_schema.migrations (
    version integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: queue_tallies; Type: TABLE; Schema: bugle_golden_schema; Owner: -
--

CREATE TABLE bugle_golden_schema.queue_tallies (
    bucket integer NOT NULL,
    queue_id uuid NOT NULL,
    lanes bigint NOT NULL,
    filled bigint NOT NULL,
    kept bigint NOT NULL,
    appended bigint NOT NULL,
    dead bigint NOT NULL,
    version bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.05', vacuum_truncate=off);


--
-- Name: queues; Type: TABLE; Schema: bugle_golden_schema; Owner: -
--

CREATE TABLE bugle_golden_schema.queues (
    queue_id uuid NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    namespace text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    version bigint NOT NULL,
    options text NOT NULL
);


--
-- Name: segments; Type: TABLE; Schema: bugle_golden_schema; Owner: -
--

CREATE TABLE bugle_golden_schema.segments (
    bucket integer NOT NULL,
    lane_id uuid NOT NULL,
    base bigint NOT NULL,
    count integer NOT NULL,
    created_at bigint NOT NULL,
    segment_id bigint NOT NULL,
    fingerprints bigint[] NOT NULL,
    body bytea NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.05', autovacuum_vacuum_insert_scale_factor='0.1', vacuum_truncate=off);
ALTER TABLE ONLY bugle_golden_schema.segments ALTER COLUMN fingerprints SET STORAGE EXTERNAL;
ALTER TABLE ONLY bugle_golden_schema.segments ALTER COLUMN body SET STORAGE EXTERNAL;


--
-- Name: tally_state; Type: TABLE; Schema: bugle_golden_schema; Owner: -
--

CREATE TABLE bugle_golden_schema.tally_state (
    bucket integer NOT NULL,
    since_s bigint NOT NULL,
    walked uuid,
    version bigint DEFAULT 0 NOT NULL,
    recent bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    settled bigint
)
WITH (fillfactor='50');


--
-- Name: trace_names; Type: TABLE; Schema: bugle_golden_schema; Owner: -
--

CREATE TABLE bugle_golden_schema.trace_names (
    name text NOT NULL COLLATE pg_catalog."C",
    trace_id uuid NOT NULL,
    lane_id uuid NOT NULL,
    transaction_id text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL
);


--
-- Name: traces; Type: TABLE; Schema: bugle_golden_schema; Owner: -
--

CREATE TABLE bugle_golden_schema.traces (
    id uuid NOT NULL,
    queue_id uuid NOT NULL,
    lane_id uuid NOT NULL,
    transaction_id text NOT NULL COLLATE pg_catalog."C",
    event_type text NOT NULL COLLATE pg_catalog."C",
    data text NOT NULL COLLATE pg_catalog."C",
    group_name text NOT NULL COLLATE pg_catalog."C",
    names text[] NOT NULL COLLATE pg_catalog."C",
    worker text COLLATE pg_catalog."C",
    created_at bigint NOT NULL
);


--
-- Data for Name: cursor_tallies; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--



--
-- Data for Name: cursors; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.cursors VALUES (0, '53aa1433-de53-52a8-7ad5-a8e8912648db', 'billing', 1794860449681136, 3, NULL, NULL, NULL, 0, 0, 0, 1794860449696053, 3, -2256713301858311180, 1794860449);
INSERT INTO bugle_golden_schema.cursors VALUES (0, 'de906216-e6d0-9b98-fc45-907166f7cc72', '__QUEUE_MODE__', 1794860449707459, 1, NULL, NULL, NULL, 0, 0, 0, 1794860449707458, 1, 7314240556355991320, 1794860449);
INSERT INTO bugle_golden_schema.cursors VALUES (0, '53aa1433-de53-52a8-7ad5-a8e8912648db', 'held', 1794860449760278, 0, '01a1e604-ffdf-77f3-b3f7-462039efbeec', 1794860479760277, 1, 0, 1, 0, 1794860449760278, 0, 4597246870718133619, 1794860449);


--
-- Data for Name: dead_letters; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.dead_letters VALUES (0, '01a1e604-ffa2-75db-b5a5-68d2e292bc4d', '424691f8-3c9a-4ac1-a12f-04df88894574', '53aa1433-de53-52a8-7ad5-a8e8912648db', 'a', 'billing', 2, '\x01a1e604ff2e718ab6d822e0f221bb08000300612d320b0000007b226e223a22612d32227d', 'a-2', 'Dead-lettered by consumer', 0, 1794860449586062, 1794860449698538, false);


--
-- Data for Name: fingerprint_runs; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--



--
-- Data for Name: group_tallies; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--



--
-- Data for Name: groups; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.groups VALUES ('a70bdb0f-5edc-47e8-8964-834f12a3f50e', 'g', 0, 0, false, 1794860447823273);
INSERT INTO bugle_golden_schema.groups VALUES ('424691f8-3c9a-4ac1-a12f-04df88894574', 'billing', 0, 0, false, 1794860449674007);
INSERT INTO bugle_golden_schema.groups VALUES ('e42a102d-2001-4334-904f-14f2d5b8af68', '__QUEUE_MODE__', 0, 0, false, 1794860449705336);
INSERT INTO bugle_golden_schema.groups VALUES ('424691f8-3c9a-4ac1-a12f-04df88894574', 'held', 0, 0, false, 1794860449758915);
INSERT INTO bugle_golden_schema.groups VALUES ('424691f8-3c9a-4ac1-a12f-04df88894574', 'sought', 1, 1794860449762903, false, 1794860449764746);


--
-- Data for Name: lane_tallies; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.lane_tallies VALUES (0, 'c8425024-629d-2e46-5f3a-354a1fcff7ef', 'b71357fd-dc42-4eb8-b596-9d4e081142f9', 1, 0);


--
-- Data for Name: lanes; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.lanes VALUES (0, 'c8425024-629d-2e46-5f3a-354a1fcff7ef', 'b71357fd-dc42-4eb8-b596-9d4e081142f9', 'vm:34427', 1, 0, 1794860447920432, 1794860447921461, 1794860447, 1794860447921461, -6125315101175703449, '01a1e604-f8ad-72da-8c6b-02d093434c6a', 0, NULL);
INSERT INTO bugle_golden_schema.lanes VALUES (0, 'a7ab4149-fb47-44f8-ec96-37f9c8a5a7b4', 'b71357fd-dc42-4eb8-b596-9d4e081142f9', 'vm:42163', 1, 0, 1794860449500895, 1794860449502799, 1794860449, 1794860449502799, -5337432314570492548, '01a1e604-fedc-75fb-acb8-68b86465ca0c', 0, NULL);
INSERT INTO bugle_golden_schema.lanes VALUES (0, '22850838-2531-eb83-4e94-37b9d3580c8e', '424691f8-3c9a-4ac1-a12f-04df88894574', 'größe/2', 5, 0, 1794860449589962, 1794860449593338, 1794860449, 1794860449593338, -6540220026647889939, NULL, 0, NULL);
INSERT INTO bugle_golden_schema.lanes VALUES (0, 'c811e27d-6d64-b6b6-cede-509ee82b04a2', '5bbbbdde-c373-45c1-b9a1-8cb6d50f5723', 'p', 2, 0, 1794860449599437, 1794860449669171, 1794860449, 1794860449669171, -7077268188420830466, NULL, 0, NULL);
INSERT INTO bugle_golden_schema.lanes VALUES (0, 'de906216-e6d0-9b98-fc45-907166f7cc72', 'e42a102d-2001-4334-904f-14f2d5b8af68', 'p', 2, 0, 1794860449702344, 1794860449715715, 1794860449, 1794860449703105, -5166543013469680819, NULL, 0, NULL);
INSERT INTO bugle_golden_schema.lanes VALUES (0, '53aa1433-de53-52a8-7ad5-a8e8912648db', '424691f8-3c9a-4ac1-a12f-04df88894574', 'a', 6, 0, 1794860449583471, 1794860449752539, 1794860449, 1794860449586062, -6985653378215470846, NULL, 0, NULL);


--
-- Data for Name: meta; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.meta VALUES (1, 1, 17, true, false);


--
-- Data for Name: migrations; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.migrations VALUES (1, 'tables', '2026-11-16 20:20:47.65181+00');
INSERT INTO bugle_golden_schema.migrations VALUES (2, 'survey', '2026-11-16 20:20:47.65181+00');
INSERT INTO bugle_golden_schema.migrations VALUES (3, 'tallies', '2026-11-16 20:20:47.65181+00');
INSERT INTO bugle_golden_schema.migrations VALUES (4, 'switches', '2026-11-16 20:20:47.65181+00');
INSERT INTO bugle_golden_schema.migrations VALUES (5, 'tally versions', '2026-11-16 20:20:47.65181+00');


--
-- Data for Name: queue_tallies; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.queue_tallies VALUES (0, 'b71357fd-dc42-4eb8-b596-9d4e081142f9', 1, 1, 1, 1, 0, 1794860447968523);
INSERT INTO bugle_golden_schema.queue_tallies VALUES (0, 'a70bdb0f-5edc-47e8-8964-834f12a3f50e', 0, 0, 0, 0, 0, 1794860449476523);


--
-- Data for Name: queues; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.queues VALUES ('a70bdb0f-5edc-47e8-8964-834f12a3f50e', 'gone', 'gone', '', 1794860447752755, 1, '{"leaseTime":60,"maxSize":0,"ttl":3600,"retryLimit":3,"retryDelay":1000,"deadLetterQueue":true,"dlqAfterMaxRetries":true,"priority":0,"delayedProcessing":0,"windowBuffer":0,"retentionSeconds":0,"completedRetentionSeconds":0,"retentionEnabled":false,"encryptionEnabled":false,"maxWaitTimeSeconds":0,"dedupWindowSeconds":3600,"minPopWaitTime":0,"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800,"enforce":[]}');
INSERT INTO bugle_golden_schema.queues VALUES ('b71357fd-dc42-4eb8-b596-9d4e081142f9', '__system_history', '', '', 1794860447919486, 1, '{"leaseTime":60,"maxSize":0,"ttl":3600,"retryLimit":3,"retryDelay":1000,"deadLetterQueue":true,"dlqAfterMaxRetries":true,"priority":0,"delayedProcessing":0,"windowBuffer":0,"retentionSeconds":604800,"completedRetentionSeconds":0,"retentionEnabled":true,"encryptionEnabled":false,"maxWaitTimeSeconds":0,"dedupWindowSeconds":0,"minPopWaitTime":0,"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800,"enforce":[]}');
INSERT INTO bugle_golden_schema.queues VALUES ('424691f8-3c9a-4ac1-a12f-04df88894574', 'orders', 'shop', 'sell', 1794860449570541, 1, '{"leaseTime":30,"maxSize":0,"ttl":3600,"retryLimit":5,"retryDelay":1000,"deadLetterQueue":true,"dlqAfterMaxRetries":true,"priority":0,"delayedProcessing":0,"windowBuffer":0,"retentionSeconds":0,"completedRetentionSeconds":0,"retentionEnabled":false,"encryptionEnabled":false,"maxWaitTimeSeconds":0,"dedupWindowSeconds":3600,"minPopWaitTime":0,"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800,"enforce":[]}');
INSERT INTO bugle_golden_schema.queues VALUES ('5bbbbdde-c373-45c1-b9a1-8cb6d50f5723', 'secrets', '', '', 1794860449580767, 1, '{"leaseTime":300,"maxSize":0,"ttl":3600,"retryLimit":3,"retryDelay":1000,"deadLetterQueue":true,"dlqAfterMaxRetries":true,"priority":0,"delayedProcessing":0,"windowBuffer":0,"retentionSeconds":0,"completedRetentionSeconds":0,"retentionEnabled":false,"encryptionEnabled":true,"maxWaitTimeSeconds":0,"dedupWindowSeconds":3600,"minPopWaitTime":0,"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800,"enforce":[]}');
INSERT INTO bugle_golden_schema.queues VALUES ('e42a102d-2001-4334-904f-14f2d5b8af68', 'letters', 'letters', '', 1794860449701711, 1, '{"leaseTime":60,"maxSize":0,"ttl":3600,"retryLimit":3,"retryDelay":1000,"deadLetterQueue":true,"dlqAfterMaxRetries":true,"priority":0,"delayedProcessing":0,"windowBuffer":0,"retentionSeconds":0,"completedRetentionSeconds":0,"retentionEnabled":false,"encryptionEnabled":false,"maxWaitTimeSeconds":0,"dedupWindowSeconds":3600,"minPopWaitTime":0,"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800,"enforce":[]}');


--
-- Data for Name: segments; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.segments VALUES (0, 'c8425024-629d-2e46-5f3a-354a1fcff7ef', 0, 1, 1794860447921461, 7412007344905088628, '{-1774236499975487778}', '\x01a1e604f8ad72da8c6b02d093434c6a00240030316131653630342d663861642d373264612d386336622d303264303933343334633661af0100007b226964223a2230316131653630342d663861642d373264612d386336622d303264303933343334633661222c22686f7374223a22766d222c22736572766572223a22766d3a3334343237222c227374617274223a313739343836303434373736323432382c22656e64223a313739343836303434373931373430322c22636f756e7473223a5b322c322c302c312c312c302c302c312c312c302c302c302c302c302c302c302c31342c302c32303030305d2c22676175676573223a7b2264656c61795f7573223a302c227061726b6564223a302c22717565756564223a302c22706f6f6c5f696e5f757365223a302c22706f6f6c5f69646c65223a322c22706f6f6c5f6d6178223a31362c226261636b65645f6f6666223a302c227265736964656e745f6279746573223a33343036323333362c227669727475616c5f6279746573223a3132303538363234307d2c22717565756573223a5b5b22676f6e65222c5b36393435382c302c312c312c312c302c302c312c312c302c302c302c312c312c36393435385d5d5d2c2272657374223a5b302c302c312c312c302c302c302c302c302c302c302c302c315d7d');
INSERT INTO bugle_golden_schema.segments VALUES (0, 'a7ab4149-fb47-44f8-ec96-37f9c8a5a7b4', 0, 1, 1794860449502799, -8948919638719386083, '{3593389343820288140}', '\x01a1e604fedc75fbacb868b86465ca0c00240030316131653630342d666564632d373566622d616362382d3638623836343635636130638f0100007b226964223a2230316131653630342d666564632d373566622d616362382d363862383634363563613063222c22686f7374223a22766d222c22736572766572223a22766d3a3432313633222c227374617274223a313739343836303434393438363633382c22656e64223a313739343836303434393530303530312c22636f756e7473223a5b302c302c302c302c302c302c302c302c302c302c302c302c302c302c302c302c315d2c22676175676573223a7b2264656c61795f7573223a302c227061726b6564223a302c22717565756564223a302c22706f6f6c5f696e5f757365223a302c22706f6f6c5f69646c65223a322c22706f6f6c5f6d6178223a31362c226261636b65645f6f6666223a302c227265736964656e745f6279746573223a33343438303132382c227669727475616c5f6279746573223a3132303538323134347d2c22717565756573223a5b5b22676f6e65222c5b302c302c302c302c302c302c302c302c302c302c302c302c302c302c302c302c302c302c302c315d5d5d2c2272657374223a5b5d7d');
INSERT INTO bugle_golden_schema.segments VALUES (0, '53aa1433-de53-52a8-7ad5-a8e8912648db', 0, 5, 1794860449586062, 8889432234383802315, '{-4992533974319767309,4104856186869790624,5475963367266298988,-5092118412840875273,5756558993264298862}', '\x01a1e604ff2e718ab6d822de7c24e4a4000300612d300b0000007b226e223a22612d30227d01a1e604ff2e718ab6d822df7707a3d5000300612d310b0000007b226e223a22612d31227d01a1e604ff2e718ab6d822e0f221bb08000300612d320b0000007b226e223a22612d32227d01a1e604ff2e718ab6d822e10334c47d000300612d330b0000007b226e223a22612d33227d01a1e604ff2e718ab6d822e262bc84fa000300612d340b0000007b226e223a22612d34227d');
INSERT INTO bugle_golden_schema.segments VALUES (0, '22850838-2531-eb83-4e94-37b9d3580c8e', 0, 5, 1794860449593338, -1701699284006007681, '{6015143460479130900,-8832449086555425504,3380725544083622064,-7051529771273474564,-6031402675148252256}', '\x01a1e604ff357261ac7e0ba29ae5542c000b006772c3b6c39f652f322d30130000007b226e223a226772c3b6c39f652f322d30227d01a1e604ff357261ac7e0ba36d53463f000b006772c3b6c39f652f322d31130000007b226e223a226772c3b6c39f652f322d31227d01a1e604ff357261ac7e0ba48e659e2b000b006772c3b6c39f652f322d32130000007b226e223a226772c3b6c39f652f322d32227d01a1e604ff357261ac7e0ba5db14caf0000b006772c3b6c39f652f322d33130000007b226e223a226772c3b6c39f652f322d33227d01a1e604ff357261ac7e0ba6676b3705000b006772c3b6c39f652f322d34130000007b226e223a226772c3b6c39f652f322d34227d');
INSERT INTO bugle_golden_schema.segments VALUES (0, 'c811e27d-6d64-b6b6-cede-509ee82b04a2', 0, 2, 1794860449669171, -4590747645909104571, '{-3164451351525359140,7785198716226828315}', '\x01a1e604ff3e77898cfa93235a507754040300732d302f0000000106676f6c64656e31b7bc429e18ce0a0e7355376c4be5a1fdfd19078914fe0636efe7ec6acc8c8698c9ce6b0822ad01a1e604ff3e77898cfa93249f8fc471040300732d312f0000000106676f6c64656e2d629b3453d749ac69caf7ba583741210bc8acbd268a11ab832d9ef64ad3913787fc0295c1009c');
INSERT INTO bugle_golden_schema.segments VALUES (0, 'de906216-e6d0-9b98-fc45-907166f7cc72', 0, 1, 1794860449703105, 7908716206649797575, '{-3886644143641820813}', '\x01a1e604ffa57640af6a7033723b3e2d0003006c2d300b0000007b226e223a226c2d30227d');
INSERT INTO bugle_golden_schema.segments VALUES (0, 'de906216-e6d0-9b98-fc45-907166f7cc72', 1, 1, 1794860449715715, 4341856493547357370, '{-7737016655581778444}', '\x01a1e604ffb3736c8e7aca4a30210be5002800646c713a30316131653630342d666661642d373333382d626166612d3839366163366136303835630b0000007b226e223a226c2d30227d');
INSERT INTO bugle_golden_schema.segments VALUES (0, '53aa1433-de53-52a8-7ad5-a8e8912648db', 5, 1, 1794860449752539, 6912900384162098770, '{4347030593450891174}', '\x01a1e604ffd772a882eb6c3799816089000300612d350b0000007b226e223a22612d35227d');


--
-- Data for Name: tally_state; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.tally_state VALUES (0, 1794860447, NULL, 1794860449735581, '{1794860449476523,1794860449719969,1794860449735581}', 747);


--
-- Data for Name: trace_names; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.trace_names VALUES ('kept', '01a1e604-ffdc-729d-b5bb-404eea71ea34', '53aa1433-de53-52a8-7ad5-a8e8912648db', 'a-5', 1794860449756540);


--
-- Data for Name: traces; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.traces VALUES ('01a1e604-ffdc-729d-b5bb-404eea71ea34', '424691f8-3c9a-4ac1-a12f-04df88894574', '53aa1433-de53-52a8-7ad5-a8e8912648db', 'a-5', 'info', '{"step":1}', '__QUEUE_MODE__', '{kept}', NULL, 1794860449756540);


--
-- Name: cursor_tallies cursor_tallies_pkey; Type: CONSTRAINT; Schema: bugle_golden_schema; Owner: -
--

ALTER TABLE ONLY bugle_golden_schema.cursor_tallies
    ADD CONSTRAINT cursor_tallies_pkey PRIMARY KEY (bucket, lane_id, group_name);


--
-- Name: cursors cursors_pkey; Type: CONSTRAINT; Schema: bugle_golden_schema; Owner: -
--

ALTER TABLE ONLY bugle_golden_schema.cursors
    ADD CONSTRAINT cursors_pkey PRIMARY KEY (bucket, lane_id, group_name);


--
-- Name: dead_letters dead_letters_pkey; Type: CONSTRAINT; Schema: bugle_golden_schema; Owner: -
--

ALTER TABLE ONLY bugle_golden_schema.dead_letters
    ADD CONSTRAINT dead_letters_pkey PRIMARY KEY (bucket, id);


--
-- Name: fingerprint_runs fingerprint_runs_pkey; Type: CONSTRAINT; Schema: bugle_golden_schema; Owner: -
--

ALTER TABLE ONLY bugle_golden_schema.fingerprint_runs
    ADD CONSTRAINT fingerprint_runs_pkey PRIMARY KEY (bucket, lane_id, part, run);


--
-- Name: group_tallies group_tallies_pkey; Type: CONSTRAINT; Schema: bugle_golden_schema; Owner: -
--

ALTER TABLE ONLY bugle_golden_schema.group_tallies
    ADD CONSTRAINT group_tallies_pkey PRIMARY KEY (bucket, queue_id, group_name);


--
-- Name: groups groups_pkey; Type: CONSTRAINT; Schema: bugle_golden_schema; Owner: -
--

ALTER TABLE ONLY bugle_golden_schema.groups
    ADD CONSTRAINT groups_pkey PRIMARY KEY (queue_id, group_name);


--
-- Name: lane_tallies lane_tallies_pkey; Type: CONSTRAINT; Schema: bugle_golden_schema; Owner: -
--

ALTER TABLE ONLY bugle_golden_schema.lane_tallies
    ADD CONSTRAINT lane_tallies_pkey PRIMARY KEY (bucket, lane_id);


--
-- Name: lanes lanes_pkey; Type: CONSTRAINT; Schema: bugle_golden_schema; Owner: -
--

ALTER TABLE ONLY bugle_golden_schema.lanes
    ADD CONSTRAINT lanes_pkey PRIMARY KEY (bucket, lane_id);


--
-- Name: meta meta_pkey; Type: CONSTRAINT; Schema: bugle_golden_schema; Owner: -
--

ALTER TABLE ONLY bugle_golden_schema.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (id);


--
-- Name: migrations migrations_pkey; Type: CONSTRAINT; Schema: bugle_golden_schema; Owner: -
--

ALTER TABLE ONLY bugle_golden_schema.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (version);


--
-- Name: queue_tallies queue_tallies_pkey; Type: CONSTRAINT; Schema: bugle_golden_schema; Owner: -
--

ALTER TABLE ONLY bugle_golden_schema.queue_tallies
    ADD CONSTRAINT queue_tallies_pkey PRIMARY KEY (bucket, queue_id);


--
-- Name: queues queues_name_key; Type: CONSTRAINT; Schema: bugle_golden_schema; Owner: -
--

ALTER TABLE ONLY bugle_golden_schema.queues
    ADD CONSTRAINT queues_name_key UNIQUE (name);


--
-- Name: queues queues_pkey; Type: CONSTRAINT; Schema: bugle_golden_schema; Owner: -
--

ALTER TABLE ONLY bugle_golden_schema.queues
    ADD CONSTRAINT queues_pkey PRIMARY KEY (queue_id);


--
-- Name: segments segments_pkey; Type: CONSTRAINT; Schema: bugle_golden_schema; Owner: -
--

ALTER TABLE ONLY bugle_golden_schema.segments
    ADD CONSTRAINT segments_pkey PRIMARY KEY (bucket, lane_id, base);


--
-- Name: tally_state tally_state_pkey; Type: CONSTRAINT; Schema: bugle_golden_schema; Owner: -
--

ALTER TABLE ONLY bugle_golden_schema.tally_state
    ADD CONSTRAINT tally_state_pkey PRIMARY KEY (bucket);


--
-- Name: trace_names trace_names_pkey; Type: CONSTRAINT; Schema: bugle_golden_schema; Owner: -
--

ALTER TABLE ONLY bugle_golden_schema.trace_names
    ADD CONSTRAINT trace_names_pkey PRIMARY KEY (name, trace_id);


--
-- Name: traces traces_pkey; Type: CONSTRAINT; Schema: bugle_golden_schema; Owner: -
--

ALTER TABLE ONLY bugle_golden_schema.traces
    ADD CONSTRAINT traces_pkey PRIMARY KEY (id);


--
-- Name: cursor_tallies_lease; Type: INDEX; Schema: bugle_golden_schema; Owner: -
--

CREATE INDEX cursor_tallies_lease ON bugle_golden_schema.cursor_tallies USING btree (lease_until, bucket) WHERE (lease_until IS NOT NULL);


--
-- Name: cursors_changed; Type: INDEX; Schema: bugle_golden_schema; Owner: -
--

CREATE INDEX cursors_changed ON bugle_golden_schema.cursors USING btree (changed_s, bucket);


--
-- Name: cursors_lease; Type: INDEX; Schema: bugle_golden_schema; Owner: -
--

CREATE INDEX cursors_lease ON bugle_golden_schema.cursors USING btree (bucket, lease_id) WHERE (lease_id IS NOT NULL);


--
-- Name: dead_letters_failed; Type: INDEX; Schema: bugle_golden_schema; Owner: -
--

CREATE INDEX dead_letters_failed ON bugle_golden_schema.dead_letters USING btree (failed_at);


--
-- Name: dead_letters_lane; Type: INDEX; Schema: bugle_golden_schema; Owner: -
--

CREATE INDEX dead_letters_lane ON bugle_golden_schema.dead_letters USING btree (lane_id, transaction_id);


--
-- Name: dead_letters_queue; Type: INDEX; Schema: bugle_golden_schema; Owner: -
--

CREATE INDEX dead_letters_queue ON bugle_golden_schema.dead_letters USING btree (queue_id, failed_at DESC, id DESC);


--
-- Name: dead_letters_uncounted; Type: INDEX; Schema: bugle_golden_schema; Owner: -
--

CREATE INDEX dead_letters_uncounted ON bugle_golden_schema.dead_letters USING btree (bucket, queue_id, id) WHERE (NOT counted);


--
-- Name: lane_tallies_queue; Type: INDEX; Schema: bugle_golden_schema; Owner: -
--

CREATE INDEX lane_tallies_queue ON bugle_golden_schema.lane_tallies USING btree (queue_id, bucket);


--
-- Name: lanes_aged; Type: INDEX; Schema: bugle_golden_schema; Owner: -
--

CREATE INDEX lanes_aged ON bugle_golden_schema.lanes USING btree (bucket, queue_id, tail_at) WHERE (tail_at IS NOT NULL);


--
-- Name: lanes_idle; Type: INDEX; Schema: bugle_golden_schema; Owner: -
--

CREATE INDEX lanes_idle ON bugle_golden_schema.lanes USING btree (bucket, written_s) WHERE (tail_at IS NULL);


--
-- Name: lanes_name; Type: INDEX; Schema: bugle_golden_schema; Owner: -
--

CREATE INDEX lanes_name ON bugle_golden_schema.lanes USING btree (queue_id, name);


--
-- Name: lanes_recent; Type: INDEX; Schema: bugle_golden_schema; Owner: -
--

CREATE INDEX lanes_recent ON bugle_golden_schema.lanes USING btree (bucket, written_s, queue_id);


--
-- Name: lanes_touched; Type: INDEX; Schema: bugle_golden_schema; Owner: -
--

CREATE INDEX lanes_touched ON bugle_golden_schema.lanes USING btree (touched_s, bucket) WHERE (touched_s IS NOT NULL);


--
-- Name: lanes_walk; Type: INDEX; Schema: bugle_golden_schema; Owner: -
--

CREATE INDEX lanes_walk ON bugle_golden_schema.lanes USING btree (bucket, queue_id, lane_id);


--
-- Name: trace_names_trace; Type: INDEX; Schema: bugle_golden_schema; Owner: -
--

CREATE INDEX trace_names_trace ON bugle_golden_schema.trace_names USING btree (trace_id);


--
-- Name: traces_created; Type: INDEX; Schema: bugle_golden_schema; Owner: -
--

CREATE INDEX traces_created ON bugle_golden_schema.traces USING btree (created_at);


--
-- Name: traces_message; Type: INDEX; Schema: bugle_golden_schema; Owner: -
--

CREATE INDEX traces_message ON bugle_golden_schema.traces USING btree (lane_id, transaction_id, created_at);


--
-- Name: traces_queue; Type: INDEX; Schema: bugle_golden_schema; Owner: -
--

CREATE INDEX traces_queue ON bugle_golden_schema.traces USING btree (queue_id);


--
-- PostgreSQL database dump complete
--

\unrestrict xUsRT1aYwYZvHjCYsjSdtFS19N1PMjPiEEpAsOeXIaqbpblEKGcncLo8sLSwO7Y

