-- Change switches and count it; null leaves one as it is.
UPDATE {schema}.meta
SET push_maintenance = coalesce($1, push_maintenance), pop_maintenance = coalesce($2, pop_maintenance),
    catalog_version = catalog_version + 1
WHERE id = 1
RETURNING push_maintenance, pop_maintenance
