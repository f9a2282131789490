-- Columns, functions and indexes of the schema, one line each, as sql/objects.txt lists them. The list of migrations is not ours alone.
SELECT line FROM (
    SELECT 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
        || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END AS line
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') AND c.relname <> 'migrations'
    UNION ALL
    SELECT 'function ' || p.proname || '(' || oidvectortypes(p.proargtypes) || ')'
    FROM pg_catalog.pg_proc p
    JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = $1
    UNION ALL
    SELECT 'index ' || i.relname || ' on ' || t.relname || CASE WHEN x.indisvalid THEN '' ELSE ' (invalid)' END
    FROM pg_catalog.pg_index x
    JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
    JOIN pg_catalog.pg_class t ON t.oid = x.indrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
    WHERE n.nspname = $1 AND t.relname <> 'migrations'
) o ORDER BY line COLLATE "C"
