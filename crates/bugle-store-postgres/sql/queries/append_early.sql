-- append_whole, whose commit waits for no disk and no standby: the lanes are free again at once. Whoever runs it makes it durable
-- by a commit of its own afterwards.
WITH s AS MATERIALIZED (
    SELECT l.lane_id, l.head, u.known, u.count, u.greatest, u.segment_id, u.n, u.a, u.b,
           greatest(l.written_at, u.at) AS stamp,
           CASE WHEN greatest(l.written_at, u.at) / 1000000 < $8 - 30 THEN $8 END AS touched{lane_place},
           set_config('synchronous_commit', 'off', true) AS early
{append_from}
