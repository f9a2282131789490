-- Delete rows that inbox_lock holds.
DELETE FROM {schema}.inbox i
USING unnest($3::int[], $4::bigint[]) AS u (n, id)
WHERE {inbox_rows}
