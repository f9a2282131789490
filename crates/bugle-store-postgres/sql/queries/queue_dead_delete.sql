-- Delete a queue's dead letters.
DELETE FROM {schema}.dead_letters WHERE queue_id = $1
