-- Lanes, each with one group's cursor. Arrays in sub-selects: one plan for any number of them, see survey.sql.
SELECT u.n::int, {lane}, {cursor}
FROM unnest((SELECT $2::uuid[]), (SELECT $3::text[])) WITH ORDINALITY AS u (lane_id, group_name, n)
{lane_by_key}
{cursor_by_key}
ORDER BY u.n
