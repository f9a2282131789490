-- Delete rows that inbox_lock holds.
DELETE FROM {schema}.inbox i
USING unnest($1::text[], $2::text[], $3::int[], $4::int[]) AS u (queue, partition, a, b)
WHERE {inbox_rows}
