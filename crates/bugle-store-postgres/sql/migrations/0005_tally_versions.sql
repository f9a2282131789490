-- Which sums changed since a server last read them, and which rows cannot have changed since somebody last counted, see
-- docs/decisions/0006-statistics.md.

-- Of the change that a row was last part of.
ALTER TABLE {schema}.queue_tallies ADD COLUMN version bigint NOT NULL DEFAULT 0;
ALTER TABLE {schema}.group_tallies ADD COLUMN version bigint NOT NULL DEFAULT 0;

ALTER TABLE {schema}.tally_state
    -- Of the last change of sums. Whoever changes them holds this row: in the order of versions they are committed.
    ADD COLUMN version bigint NOT NULL DEFAULT 0,
    -- The last versions since which no row of sums was deleted: who has read one of them needs only later rows.
    ADD COLUMN recent bigint[] NOT NULL DEFAULT '{}',
    -- Transactions before this one had ended when was last counted; null = not known.
    ADD COLUMN settled bigint;
