-- Lanes by the time they were written, over all queues: what a survey asks for. The queue comes last, so that the
-- question for one queue is answered from the same index: no entry more per push than before.
CREATE INDEX lanes_recent ON {schema}.lanes (bucket, written_s, queue_id);
DROP INDEX {schema}.lanes_written;
