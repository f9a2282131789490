-- Rows i of the lanes u (queue, partition), whose numbers are the elements a to b of $5.
i.queue = u.queue AND i.partition = u.partition AND i.id = ANY (($5::bigint[])[u.a:u.b])
