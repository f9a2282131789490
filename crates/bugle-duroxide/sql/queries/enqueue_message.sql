-- One message for an orchestration; see deliver.
SELECT d.ready, d.later, {schema}.micros(clock_timestamp())
FROM {schema}.deliver(NULL, ARRAY[$1], ARRAY[$2],
    ARRAY[greatest(to_timestamp($3::float8 / 1000), clock_timestamp() + make_interval(secs => $4::float8))], ARRAY[$5]) d
