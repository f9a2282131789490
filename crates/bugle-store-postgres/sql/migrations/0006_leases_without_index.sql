-- Cursors of a lease are found by what its id says (lease_id.rs of bugle-store). An entry of this index was written with every claim
-- and one made useless with every acknowledgement, and no change of a cursor could stay in its page.
DROP INDEX IF EXISTS {schema}.cursors_lease;
