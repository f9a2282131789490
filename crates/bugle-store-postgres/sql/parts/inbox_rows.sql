-- Rows i of the inbox by their whole key: the number u.id of the lane whose names are at place u.n of $1 and $2.
i.queue = ($1::text[])[u.n] AND i.partition = ($2::text[])[u.n] AND i.id = u.id
