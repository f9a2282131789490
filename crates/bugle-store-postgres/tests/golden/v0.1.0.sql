--
-- PostgreSQL database dump
--

\restrict 4JNwvCZYLIDW8H8UQg3u6AjwNeFHQdFXINr5PQC5JtTjOIejo00mx0NYJIFVdnL

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
    applied_at timestamp with time zone DEFAULT now() NOT NULL,
    needs integer
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

INSERT INTO bugle_golden_schema.cursors VALUES (0, 'a7484abc-d55a-2c35-a530-ee1d016f3b7d', 'billing', 1794861105605193, 3, NULL, NULL, NULL, 0, 0, 0, 1794861105631378, 3, -1652933446960474169, 1794861105);
INSERT INTO bugle_golden_schema.cursors VALUES (0, '59563a0f-f10f-9e77-ac21-6c579f182d14', '__QUEUE_MODE__', 1794861105643483, 1, NULL, NULL, NULL, 0, 0, 0, 1794861105643482, 1, 8354884986907621852, 1794861105);
INSERT INTO bugle_golden_schema.cursors VALUES (0, 'a7484abc-d55a-2c35-a530-ee1d016f3b7d', 'held', 1794861105695573, 0, '01a1e60f-021f-71ab-8533-9c37074003cd', 1794861135695572, 1, 0, 1, 0, 1794861105695573, 0, 6824113677633984410, 1794861105);


--
-- Data for Name: dead_letters; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.dead_letters VALUES (0, '01a1e60f-01e2-7480-a898-1176029144ee', '824c310e-5a5e-478e-8af6-19f6405ad0cc', 'a7484abc-d55a-2c35-a530-ee1d016f3b7d', 'a', 'billing', 2, '\x01a1e60f016e77579f476459b474e2f1000300612d320b0000007b226e223a22612d32227d', 'a-2', 'Dead-lettered by consumer', 0, 1794861105521495, 1794861105634738, false);


--
-- Data for Name: fingerprint_runs; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--



--
-- Data for Name: group_tallies; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--



--
-- Data for Name: groups; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.groups VALUES ('a2af5045-1fbc-4d19-838f-b621a6d7f3ff', 'g', 0, 0, false, 1794861103774034);
INSERT INTO bugle_golden_schema.groups VALUES ('824c310e-5a5e-478e-8af6-19f6405ad0cc', 'billing', 0, 0, false, 1794861105601369);
INSERT INTO bugle_golden_schema.groups VALUES ('11b1da84-ebf3-44a6-867a-2ecc48ced161', '__QUEUE_MODE__', 0, 0, false, 1794861105641221);
INSERT INTO bugle_golden_schema.groups VALUES ('824c310e-5a5e-478e-8af6-19f6405ad0cc', 'held', 0, 0, false, 1794861105693266);
INSERT INTO bugle_golden_schema.groups VALUES ('824c310e-5a5e-478e-8af6-19f6405ad0cc', 'sought', 1, 1794861105699774, false, 1794861105702002);


--
-- Data for Name: lane_tallies; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.lane_tallies VALUES (0, '8c59da06-805c-7f94-db44-fd461d429c1a', '8e0fcef7-3f4a-4059-adcd-b1ddb6ef7cc1', 1, 0);


--
-- Data for Name: lanes; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.lanes VALUES (0, '8c59da06-805c-7f94-db44-fd461d429c1a', '8e0fcef7-3f4a-4059-adcd-b1ddb6ef7cc1', 'vm:34137', 1, 0, 1794861103844158, 1794861103845071, 1794861103, 1794861103845071, 943636637126619291, '01a1e60e-fae1-754c-8098-d8ad20806275', 0, NULL);
INSERT INTO bugle_golden_schema.lanes VALUES (0, 'bdc7a1de-9247-ba16-6f2b-80d756a1835a', '8e0fcef7-3f4a-4059-adcd-b1ddb6ef7cc1', 'vm:36231', 1, 0, 1794861105416800, 1794861105419064, 1794861105, 1794861105419064, 5503229361325611663, '01a1e60f-0108-7616-9b3e-5e2032923f4b', 0, NULL);
INSERT INTO bugle_golden_schema.lanes VALUES (0, '7346742f-4b82-36df-f89d-5a983a3e4132', '824c310e-5a5e-478e-8af6-19f6405ad0cc', 'größe/2', 5, 0, 1794861105530321, 1794861105532017, 1794861105, 1794861105532017, -3825820084378327439, NULL, 0, NULL);
INSERT INTO bugle_golden_schema.lanes VALUES (0, '9f2ece81-5324-83c8-7f8c-5856e2af945a', 'f022f528-ee97-4055-8480-6e10d4f3ecc3', 'p', 2, 0, 1794861105537972, 1794861105597400, 1794861105, 1794861105597400, -7373546430373176776, NULL, 0, NULL);
INSERT INTO bugle_golden_schema.lanes VALUES (0, '59563a0f-f10f-9e77-ac21-6c579f182d14', '11b1da84-ebf3-44a6-867a-2ecc48ced161', 'p', 2, 0, 1794861105638323, 1794861105652335, 1794861105, 1794861105639019, -4148525620408788572, NULL, 0, NULL);
INSERT INTO bugle_golden_schema.lanes VALUES (0, 'a7484abc-d55a-2c35-a530-ee1d016f3b7d', '824c310e-5a5e-478e-8af6-19f6405ad0cc', 'a', 6, 0, 1794861105518739, 1794861105684987, 1794861105, 1794861105521495, 7128268617658090030, NULL, 0, NULL);


--
-- Data for Name: meta; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.meta VALUES (1, 1, 17, true, false);


--
-- Data for Name: migrations; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.migrations VALUES (1, 'tables', '2026-11-16 20:31:43.617462+00', 1);
INSERT INTO bugle_golden_schema.migrations VALUES (2, 'survey', '2026-11-16 20:31:43.656806+00', 2);
INSERT INTO bugle_golden_schema.migrations VALUES (3, 'tallies', '2026-11-16 20:31:43.661513+00', 3);
INSERT INTO bugle_golden_schema.migrations VALUES (4, 'switches', '2026-11-16 20:31:43.672642+00', 4);
INSERT INTO bugle_golden_schema.migrations VALUES (5, 'tally versions', '2026-11-16 20:31:43.675846+00', 5);


--
-- Data for Name: queue_tallies; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.queue_tallies VALUES (0, '8e0fcef7-3f4a-4059-adcd-b1ddb6ef7cc1', 1, 1, 1, 1, 0, 1794861103889333);
INSERT INTO bugle_golden_schema.queue_tallies VALUES (0, 'a2af5045-1fbc-4d19-838f-b621a6d7f3ff', 0, 0, 0, 0, 0, 1794861105393541);


--
-- Data for Name: queues; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.queues VALUES ('a2af5045-1fbc-4d19-838f-b621a6d7f3ff', 'gone', 'gone', '', 1794861103692221, 1, '{"leaseTime":60,"maxSize":0,"ttl":3600,"retryLimit":3,"retryDelay":1000,"deadLetterQueue":true,"dlqAfterMaxRetries":true,"priority":0,"delayedProcessing":0,"windowBuffer":0,"retentionSeconds":0,"completedRetentionSeconds":0,"retentionEnabled":false,"encryptionEnabled":false,"maxWaitTimeSeconds":0,"dedupWindowSeconds":3600,"minPopWaitTime":0,"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800,"enforce":[]}');
INSERT INTO bugle_golden_schema.queues VALUES ('8e0fcef7-3f4a-4059-adcd-b1ddb6ef7cc1', '__system_history', '', '', 1794861103843486, 1, '{"leaseTime":60,"maxSize":0,"ttl":3600,"retryLimit":3,"retryDelay":1000,"deadLetterQueue":true,"dlqAfterMaxRetries":true,"priority":0,"delayedProcessing":0,"windowBuffer":0,"retentionSeconds":604800,"completedRetentionSeconds":0,"retentionEnabled":true,"encryptionEnabled":false,"maxWaitTimeSeconds":0,"dedupWindowSeconds":0,"minPopWaitTime":0,"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800,"enforce":[]}');
INSERT INTO bugle_golden_schema.queues VALUES ('824c310e-5a5e-478e-8af6-19f6405ad0cc', 'orders', 'shop', 'sell', 1794861105482236, 1, '{"leaseTime":30,"maxSize":0,"ttl":3600,"retryLimit":5,"retryDelay":1000,"deadLetterQueue":true,"dlqAfterMaxRetries":true,"priority":0,"delayedProcessing":0,"windowBuffer":0,"retentionSeconds":0,"completedRetentionSeconds":0,"retentionEnabled":false,"encryptionEnabled":false,"maxWaitTimeSeconds":0,"dedupWindowSeconds":3600,"minPopWaitTime":0,"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800,"enforce":[]}');
INSERT INTO bugle_golden_schema.queues VALUES ('f022f528-ee97-4055-8480-6e10d4f3ecc3', 'secrets', '', '', 1794861105506956, 1, '{"leaseTime":300,"maxSize":0,"ttl":3600,"retryLimit":3,"retryDelay":1000,"deadLetterQueue":true,"dlqAfterMaxRetries":true,"priority":0,"delayedProcessing":0,"windowBuffer":0,"retentionSeconds":0,"completedRetentionSeconds":0,"retentionEnabled":false,"encryptionEnabled":true,"maxWaitTimeSeconds":0,"dedupWindowSeconds":3600,"minPopWaitTime":0,"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800,"enforce":[]}');
INSERT INTO bugle_golden_schema.queues VALUES ('11b1da84-ebf3-44a6-867a-2ecc48ced161', 'letters', 'letters', '', 1794861105637662, 1, '{"leaseTime":60,"maxSize":0,"ttl":3600,"retryLimit":3,"retryDelay":1000,"deadLetterQueue":true,"dlqAfterMaxRetries":true,"priority":0,"delayedProcessing":0,"windowBuffer":0,"retentionSeconds":0,"completedRetentionSeconds":0,"retentionEnabled":false,"encryptionEnabled":false,"maxWaitTimeSeconds":0,"dedupWindowSeconds":3600,"minPopWaitTime":0,"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800,"enforce":[]}');


--
-- Data for Name: segments; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.segments VALUES (0, '8c59da06-805c-7f94-db44-fd461d429c1a', 0, 1, 1794861103845071, 7067804860892975612, '{-5790913618127384342}', '\x01a1e60efae1754c8098d8ad2080627500240030316131653630652d666165312d373534632d383039382d643861643230383036323735b50100007b226964223a2230316131653630652d666165312d373534632d383039382d643861643230383036323735222c22686f7374223a22766d222c22736572766572223a22766d3a3334313337222c227374617274223a313739343836313130333730383533322c22656e64223a313739343836313130333834313833302c22636f756e7473223a5b322c322c302c312c312c302c302c312c312c302c302c302c302c302c302c302c31342c302c31303030302c31303030305d2c22676175676573223a7b2264656c61795f7573223a302c227061726b6564223a302c22717565756564223a302c22706f6f6c5f696e5f757365223a302c22706f6f6c5f69646c65223a312c22706f6f6c5f6d6178223a31362c226261636b65645f6f6666223a302c227265736964656e745f6279746573223a33353037383134342c227669727475616c5f6279746573223a3132313830363834387d2c22717565756573223a5b5b22676f6e65222c5b37383836332c302c312c312c312c302c302c312c312c302c302c302c312c312c37383836335d5d5d2c2272657374223a5b302c302c312c312c302c302c302c302c302c302c302c302c315d7d');
INSERT INTO bugle_golden_schema.segments VALUES (0, 'bdc7a1de-9247-ba16-6f2b-80d756a1835a', 0, 1, 1794861105419064, 9208859431569089035, '{-5614835085878107196}', '\x01a1e60f010876169b3e5e2032923f4b00240030316131653630662d303130382d373631362d396233652d3565323033323932336634628f0100007b226964223a2230316131653630662d303130382d373631362d396233652d356532303332393233663462222c22686f7374223a22766d222c22736572766572223a22766d3a3336323331222c227374617274223a313739343836313130353430333438322c22656e64223a313739343836313130353431363435352c22636f756e7473223a5b302c302c302c302c302c302c302c302c302c302c302c302c302c302c302c302c345d2c22676175676573223a7b2264656c61795f7573223a302c227061726b6564223a302c22717565756564223a302c22706f6f6c5f696e5f757365223a302c22706f6f6c5f69646c65223a322c22706f6f6c5f6d6178223a31362c226261636b65645f6f6666223a302c227265736964656e745f6279746573223a33353237303635362c227669727475616c5f6279746573223a3132313830363834387d2c22717565756573223a5b5b22676f6e65222c5b302c302c302c302c302c302c302c302c302c302c302c302c302c302c302c302c302c302c302c315d5d5d2c2272657374223a5b5d7d');
INSERT INTO bugle_golden_schema.segments VALUES (0, 'a7484abc-d55a-2c35-a530-ee1d016f3b7d', 0, 5, 1794861105521495, -5444614665596666313, '{-4992533974319767309,4104856186869790624,5475963367266298988,-5092118412840875273,5756558993264298862}', '\x01a1e60f016e77579f47645739a5b868000300612d300b0000007b226e223a22612d30227d01a1e60f016e77579f476458c56e29aa000300612d310b0000007b226e223a22612d31227d01a1e60f016e77579f476459b474e2f1000300612d320b0000007b226e223a22612d32227d01a1e60f016e77579f47645a65bff423000300612d330b0000007b226e223a22612d33227d01a1e60f016e77579f47645bef906d04000300612d340b0000007b226e223a22612d34227d');
INSERT INTO bugle_golden_schema.segments VALUES (0, '7346742f-4b82-36df-f89d-5a983a3e4132', 0, 5, 1794861105532017, -7015259547638577652, '{6015143460479130900,-8832449086555425504,3380725544083622064,-7051529771273474564,-6031402675148252256}', '\x01a1e60f0179705aba0d7df168f9a72e000b006772c3b6c39f652f322d30130000007b226e223a226772c3b6c39f652f322d30227d01a1e60f0179705aba0d7df2b5f6e92a000b006772c3b6c39f652f322d31130000007b226e223a226772c3b6c39f652f322d31227d01a1e60f0179705aba0d7df332482a28000b006772c3b6c39f652f322d32130000007b226e223a226772c3b6c39f652f322d32227d01a1e60f0179705aba0d7df438aba3dd000b006772c3b6c39f652f322d33130000007b226e223a226772c3b6c39f652f322d33227d01a1e60f0179705aba0d7df561a6a6f9000b006772c3b6c39f652f322d34130000007b226e223a226772c3b6c39f652f322d34227d');
INSERT INTO bugle_golden_schema.segments VALUES (0, '9f2ece81-5324-83c8-7f8c-5856e2af945a', 0, 2, 1794861105597400, -2807493460557256552, '{-3164451351525359140,7785198716226828315}', '\x01a1e60f0181701d8b87d541245cd219040300732d302f0000000106676f6c64656e07e1cecb18d2a7f08d4e18159b8e9e3849e1754bec372d1607047d074276a10a3fc80f88fe684701a1e60f0181701d8b87d54236d8539c040300732d312f0000000106676f6c64656e414c49648edb819ec187229b04116089504904a7428a2de0ef320a07214c50997d7e1edb6d8897');
INSERT INTO bugle_golden_schema.segments VALUES (0, '59563a0f-f10f-9e77-ac21-6c579f182d14', 0, 1, 1794861105639019, -5204858931871759090, '{-3886644143641820813}', '\x01a1e60f01e574babb4d7801a9864b910003006c2d300b0000007b226e223a226c2d30227d');
INSERT INTO bugle_golden_schema.segments VALUES (0, '59563a0f-f10f-9e77-ac21-6c579f182d14', 1, 1, 1794861105652335, -8701085623321195190, '{-2301496734002524882}', '\x01a1e60f01f372359635c2985c61000d002800646c713a30316131653630662d303165662d373531622d623031392d6137643839343064646439610b0000007b226e223a226c2d30227d');
INSERT INTO bugle_golden_schema.segments VALUES (0, 'a7484abc-d55a-2c35-a530-ee1d016f3b7d', 5, 1, 1794861105684987, 6956795712743041804, '{4347030593450891174}', '\x01a1e60f021474e88567bed7cd4186d1000300612d350b0000007b226e223a22612d35227d');


--
-- Data for Name: tally_state; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.tally_state VALUES (0, 1794861103, NULL, 1794861105671283, '{1794861105393541,1794861105653786,1794861105671283}', 751);


--
-- Data for Name: trace_names; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.trace_names VALUES ('kept', '01a1e60f-0219-76ae-b923-16dc50e5c49f', 'a7484abc-d55a-2c35-a530-ee1d016f3b7d', 'a-5', 1794861105689718);


--
-- Data for Name: traces; Type: TABLE DATA; Schema: bugle_golden_schema; Owner: -
--

INSERT INTO bugle_golden_schema.traces VALUES ('01a1e60f-0219-76ae-b923-16dc50e5c49f', '824c310e-5a5e-478e-8af6-19f6405ad0cc', 'a7484abc-d55a-2c35-a530-ee1d016f3b7d', 'a-5', 'info', '{"step":1}', '__QUEUE_MODE__', '{kept}', NULL, 1794861105689718);


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

\unrestrict 4JNwvCZYLIDW8H8UQg3u6AjwNeFHQdFXINr5PQC5JtTjOIejo00mx0NYJIFVdnL

