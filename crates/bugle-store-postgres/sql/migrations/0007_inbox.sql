-- The inbox: messages that applications commit in their own transactions, by the function push, and that servers move into
-- lanes; docs/decisions/0014-inbox.md says why it is as it is. It has no bucket: a row is written before anybody knows its
-- lane's id, which depends on a queue that may not exist yet.
--
-- The key is what movers read by: the first rows of each lane, lane after lane. Text is as the application gave it.
CREATE TABLE {schema}.inbox (
    queue text COLLATE "C" NOT NULL CHECK (octet_length(queue) BETWEEN 1 AND 255),
    partition text COLLATE "C" NOT NULL CHECK (octet_length(partition) BETWEEN 1 AND 255),
    id bigserial NOT NULL,
    transaction_id text COLLATE "C" NOT NULL CHECK (octet_length(transaction_id) BETWEEN 1 AND 255),
    written_at bigint NOT NULL,
    payload text NOT NULL,
    PRIMARY KEY (queue, partition, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.05, vacuum_truncate = off);
-- Nobody but the owner, whatever the defaults of this database are: applications have the function.
REVOKE ALL ON TABLE {schema}.inbox FROM PUBLIC;

