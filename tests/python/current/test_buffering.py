"""Pushes that the client gathers before it sends them."""

import os

from queen import Queen
from support import PATIENCE_MILLIS, ClientTest, eventually, numbers, unique

#: Thresholds that cannot be reached within a test.
NEVER = {"message_count": 1000, "time_millis": 10 * PATIENCE_MILLIS}


class Buffering(ClientTest):
    async def test_a_full_buffer_is_sent(self):
        queue = unique("buffer-count")
        builder = self.queen.queue(queue).buffer({**NEVER, "message_count": 5})
        for n in range(5):
            self.assertEqual(await builder.push({"data": {"n": n}}), {"buffered": True, "count": 1})
        self.assertEqual(numbers(await self.take(queue)), [0, 1, 2, 3, 4])

    async def test_a_buffer_is_sent_after_its_time(self):
        queue = unique("buffer-time")
        builder = self.queen.queue(queue).buffer({**NEVER, "time_millis": 50})
        for n in (1, 2):
            await builder.push({"data": {"n": n}})
            messages = await self.take(queue)
            self.assertEqual(numbers(messages), [n])
            await self.assert_acked(messages)

    async def test_a_flush_sends_one_partition_or_all(self):
        queue = unique("buffer-flush")
        builders = [self.queen.queue(queue).partition(name).buffer(NEVER) for name in ("a", "b")]
        for builder in builders:
            await builder.push([{"data": {"n": 1}}, {"data": {"n": 2}}])
        self.assertEqual(self.queen.get_buffer_stats()["totalBufferedMessages"], 4)
        await builders[0].flush_buffer()
        messages = await self.popping(queue).partitions(2).pop()
        self.assertEqual([(m["partition"], m["data"]["n"]) for m in messages], [("a", 1), ("a", 2)])
        await self.queen.flush_all_buffers()
        self.assertEqual(self.queen.get_buffer_stats()["totalBufferedMessages"], 0)
        self.assertEqual(numbers(await self.popping(queue).partition("b").pop()), [1, 2])

    async def test_closing_sends_what_is_left(self):
        queue = unique("buffer-close")
        other = Queen(os.environ["BUGLE_URL"])
        await other.queue(queue).buffer(NEVER).push([{"data": {"n": n}} for n in range(3)])
        await other.close()
        self.assertEqual(numbers(await self.take(queue)), [0, 1, 2])

    async def test_a_slow_sender_blocks_but_loses_nothing(self):
        queue = unique("buffer-bound")
        bound = {"message_count": 10, "time_millis": 20, "max_size": 20}
        await self.queen.queue(queue).buffer(bound).push([{"data": {"n": n}} for n in range(300)])
        await self.queen.flush_all_buffers()
        seen = []

        async def all_seen():
            messages = await self.popping(queue).pop()
            seen.extend(numbers(messages))
            if messages:
                await self.assert_acked(messages)
            return len(seen) >= 300

        await eventually(all_seen, "all 300 messages")
        self.assertEqual(seen, list(range(300)))
