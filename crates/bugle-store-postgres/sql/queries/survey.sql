-- What moved anywhere, as one statement of three kinds of rows, told apart by n: lanes to look at again with one group's
-- cursor (n is their place), lanes written since a time (-1; the first by time, so the work ends at the limit), and
-- one row (0) with the catalog's version as head, whether anything is in the inbox as tail, and the database's time as
-- written_at.
--
-- The plan is kept by the connection, perhaps since the tables were empty, and must stay good when they have grown.
-- Parameters other than the bucket stand in sub-selects: the planner makes one plan for all values. An upper bound that
-- nothing reaches makes it expect few written lanes.
SELECT u.n::int, {lane}, {cursor}
FROM unnest((SELECT $3::uuid[]), (SELECT $4::text[])) WITH ORDINALITY AS u (lane_id, group_name, n)
{lane_by_key}
{cursor_by_key}
UNION ALL
SELECT -1, w.lane_id, w.queue_id, '', w.head, 0, 0, w.written_at, NULL,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM (
    SELECT r.lane_id, r.queue_id, r.head, r.written_at
    FROM {schema}.lanes r
    WHERE r.bucket = $1
      AND r.written_s BETWEEN (SELECT $2::bigint / 1000000) AND (SELECT 9223372036854775807)
      AND r.written_at >= (SELECT $2::bigint) AND r.head > 0
    ORDER BY r.written_s, r.written_at, r.lane_id
    LIMIT (SELECT $5::bigint)
) w
UNION ALL
SELECT 0, NULL, NULL, {announce}, m.catalog_version,
       (SELECT count(*) FROM (SELECT FROM {schema}.inbox i ORDER BY i.queue, i.partition, i.id LIMIT 1) i), 0,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, NULL,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM {schema}.meta m
WHERE m.id = 1
