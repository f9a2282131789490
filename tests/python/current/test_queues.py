"""Queues: their options, what those do, and deletion."""

from support import PATIENCE_MILLIS, ClientTest, age, eventually, numbers, unique


class Queues(ClientTest):
    async def test_options_are_echoed(self):
        options = {
            "lease_time": 60,
            "retry_limit": 7,
            "priority": 5,
            "delayed_processing": 0,
            "window_buffer": 0,
            "max_size": 1000,
            "retention_seconds": 3600,
            "completed_retention_seconds": 600,
            "retention_enabled": True,
            "encryption_enabled": False,
            "max_wait_time_seconds": 99,
            "dead_letter_queue": True,
            "dlq_after_max_retries": True,
        }
        queue = unique("options")
        answer = await self.queen.queue(queue).namespace("n").task("t").config(options).create()
        self.assertEqual((answer["queue"], answer["namespace"], answer["task"]), (queue, "n", "t"))
        for name, value in options.items():
            first, *rest = name.split("_")
            key = first + "".join(word.capitalize() for word in rest)
            self.assertEqual(answer["options"][key], value, key)

    async def test_a_delay_holds_messages_back(self):
        queue = await self.make("delayed", delayed_processing=1)
        await self.push(queue, 1)
        (message,) = await self.take(queue)
        self.assertGreaterEqual(age(message), 1)

    async def test_a_window_gathers_messages(self):
        queue = await self.make("window", window_buffer=1)
        await self.push(queue, 1)
        await self.push(queue, 2)
        messages = await self.take(queue)
        self.assertEqual(numbers(messages), [1, 2])
        self.assertGreaterEqual(age(messages[0]), 1)

    async def test_retention_removes_old_messages(self):
        queue = await self.make("retention", retention_enabled=True, retention_seconds=1)
        await self.push(queue, 1)
        await self.gone(queue)

    async def test_eviction_removes_messages_that_waited_too_long(self):
        queue = await self.make("eviction", max_wait_time_seconds=1)
        await self.push(queue, 1)
        await self.gone(queue)

    async def gone(self, queue):
        """A group that has never been here finds nothing any more."""

        async def nothing():
            return not await self.popping(queue, unique("g")).pop()

        await eventually(nothing, f"{queue} becomes empty")

    async def test_a_deleted_queue_is_gone_and_may_be_made_again(self):
        queue = await self.make("deleted")
        await self.push(queue, 1)
        self.assertIs((await self.queen.queue(queue).delete())["deleted"], True)
        await self.assert_empty(queue)
        self.assertIs((await self.queen.queue(queue).delete())["deleted"], True)
        await self.push(queue, 2)
        waiting = self.queen.queue(queue).batch(9).timeout_millis(PATIENCE_MILLIS)
        self.assertEqual(numbers(await waiting.pop()), [2])
