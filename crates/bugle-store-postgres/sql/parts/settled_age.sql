-- The age, in transactions, of the first one that may not have ended when was last counted. Everything is younger than the
-- greatest age, for who does not trust what is stored ($4) and where it cannot be compared any more.
CASE WHEN $4 AND o.settled BETWEEN n.next - 1000000000 AND n.next THEN age(o.settled::text::xid8::xid)
     ELSE 2147483647 END
FROM {schema}.tally_state o, (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next) n
WHERE o.bucket = $1
