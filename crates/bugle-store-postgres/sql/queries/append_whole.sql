-- append_lanes and append_segments in one statement, which is a transaction by itself: half of the work of a small append is
-- that of further statements. See `chains` of the extras.
WITH s AS MATERIALIZED (
    SELECT l.lane_id, l.head, u.known, u.count, u.greatest, u.segment_id, u.n, u.a, u.b,
           greatest(l.written_at, u.at) AS stamp,
           CASE WHEN greatest(l.written_at, u.at) / 1000000 < $8 - 30 THEN $8 END AS touched{lane_place}
{append_from}
