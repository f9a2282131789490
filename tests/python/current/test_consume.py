"""Consuming: acknowledgement by the loop, concurrency, failures, waiting, sizes of pops."""

import asyncio

from support import PATIENCE, PATIENCE_MILLIS, ClientTest, numbers, unique


class Consume(ClientTest):
    async def test_handled_messages_are_acknowledged(self):
        queue = unique("consume")
        await self.push(queue, *range(5))
        seen = []

        async def handler(message):
            seen.append(message["data"]["n"])

        await self.queen.queue(queue).batch(5).each().limit(5).consume(handler)
        self.assertEqual(seen, [0, 1, 2, 3, 4])
        await self.assert_empty(queue)

    async def test_a_batch_is_handed_over_as_a_list_and_one_message_as_itself(self):
        queue = unique("consume-batch")
        await self.push(queue, *range(4))
        handed = []

        async def handler(messages):
            handed.append(messages)

        await self.queen.queue(queue).batch(3).limit(3).consume(handler)
        await self.queen.queue(queue).batch(1).limit(1).consume(handler)
        self.assertEqual(numbers(handed[0]), [0, 1, 2])
        self.assertEqual(handed[1]["data"]["n"], 3)

    async def test_a_waiting_consumer_hears_of_a_push(self):
        queue = unique("consume-wait")
        heard = asyncio.get_running_loop().create_future()

        async def handler(message):
            heard.set_result(message["data"]["n"])

        builder = self.queen.queue(queue).batch(1).limit(1).timeout_millis(PATIENCE_MILLIS)
        consumer = asyncio.ensure_future(builder.consume(handler))
        await self.push(queue, 42)
        self.assertEqual(await asyncio.wait_for(heard, PATIENCE), 42)
        await asyncio.wait_for(consumer, PATIENCE)

    async def test_concurrent_workers_keep_the_order_of_each_partition(self):
        queue, lanes, each = unique("consume-many"), 8, 25
        for lane in range(lanes):
            await self.push(queue, *range(each), partition=f"lane-{lane}")
        seen, done = {}, asyncio.Event()

        async def handler(messages):
            for message in messages:
                seen.setdefault(message["partition"], []).append(message["data"]["n"])
            if sum(map(len, seen.values())) >= lanes * each:
                done.set()

        builder = self.queen.queue(queue).group("workers").subscription_mode("all")
        builder = builder.concurrency(4).batch(10).timeout_millis(500)
        await asyncio.wait_for(builder.consume(handler, signal=done), PATIENCE)
        self.assertEqual(seen, {f"lane-{lane}": list(range(each)) for lane in range(lanes)})
        await self.assert_empty(queue, "workers")

    async def test_a_failed_batch_comes_back_until_it_succeeds(self):
        queue = await self.make("consume-retry", retry_limit=3)
        await self.push(queue, *range(100))
        calls, done = [], asyncio.Event()

        async def handler(messages):
            calls.append(numbers(messages))
            if len(calls) < 3:
                raise RuntimeError("not yet")
            done.set()

        builder = self.queen.queue(queue).batch(100).timeout_millis(PATIENCE_MILLIS)
        await asyncio.wait_for(builder.consume(handler, signal=done), PATIENCE)
        self.assertEqual(calls, [list(range(100))] * 3)
        await self.assert_empty(queue)
        self.assertEqual((await self.queen.queue(queue).dlq().get())["total"], 0)

    async def test_a_failure_returns_only_its_own_partition(self):
        queue = await self.make("consume-scope", lease_time=300)
        for partition in ("a", "b"):
            await self.push(queue, 1, 2, partition=partition)
        handled, done = [], asyncio.Event()

        async def handler(message):
            handled.append((message["partition"], message["data"]["n"]))
            if len(handled) == 1:
                raise RuntimeError("the first one fails")
            if len(handled) == 5:
                done.set()

        builder = self.queen.queue(queue).group("g").subscription_mode("all")
        builder = builder.partitions(2).batch(10).each().timeout_millis(PATIENCE_MILLIS)
        await asyncio.wait_for(builder.consume(handler, signal=done), PATIENCE)
        failed = handled[0]
        expected = [(partition, n) for partition in ("a", "b") for n in (1, 2)] + [failed]
        self.assertEqual(sorted(handled), sorted(expected))

    async def test_without_auto_ack_a_failure_ends_the_consumer(self):
        queue = unique("consume-manual")
        await self.push(queue, 1)

        async def handler(message):
            raise RuntimeError("my own affair")

        with self.assertRaisesRegex(RuntimeError, "my own affair"):
            await self.queen.queue(queue).batch(1).auto_ack(False).consume(handler)
        await self.assert_empty(queue)

    async def test_callbacks_settle_by_hand(self):
        queue = await self.make("consume-callbacks", retry_limit=0)
        await self.push(queue, 1, 2)
        settled = []

        async def handler(message):
            if message["data"]["n"] == 2:
                raise RuntimeError("two")

        async def on_success(message, result):
            settled.append(await self.queen.ack(message, True))

        async def on_error(message, error):
            settled.append(await self.queen.ack(message, False, {"error": str(error)}))

        consume = self.queen.queue(queue).batch(1).limit(2).consume(handler)
        await consume.on_success(on_success).on_error(on_error)
        self.assertEqual([(answer["success"], answer["dlq"]) for answer in settled], [(True, False), (True, True)])
        letters = await self.queen.queue(queue).dlq().get()
        self.assertEqual([letter["errorMessage"] for letter in letters["messages"]], ["two"])

    async def test_consumers_find_queues_by_namespace_and_task(self):
        namespace, seen = unique("namespace"), []
        for task in ("mail", "print"):
            queue = unique(task)
            await self.queen.queue(queue).namespace(namespace).task(task).create()
            await self.queen.queue(queue).push({"data": {"n": task}})

        async def handler(message):
            seen.append(message["data"]["n"])

        await self.queen.queue().namespace(namespace).task("print").batch(1).limit(1).consume(handler)
        self.assertEqual(seen, ["print"])
        await self.queen.queue().namespace(namespace).batch(1).limit(1).consume(handler)
        self.assertEqual(seen, ["print", "mail"])


class Pop(ClientTest):
    async def test_the_server_sizes_a_pop_that_says_nothing(self):
        queue = unique("autopilot")
        for lane in range(4):
            await self.push(queue, *range(60), partition=f"lane-{lane}")
        result = await self.queen.queue(queue).wait(False).pop_result()
        self.assertEqual(len(result.messages), 240)
        self.assertGreaterEqual(result.autopilot.batch, 200)
        self.assertGreaterEqual(result.autopilot.partitions, 4)
        pinned = await self.queen.queue(queue).group("g").batch(7).wait(False).pop_result()
        self.assertEqual(len(pinned.messages), 7)

    async def test_without_autopilot_a_pop_takes_one_message(self):
        queue = unique("no-autopilot")
        await self.push(queue, 1, 2)
        result = await self.queen.queue(queue).autopilot(False).wait(False).pop_result()
        self.assertEqual((numbers(result.messages), result.autopilot), ([1], None))

    async def test_the_batch_is_shared_by_partitions_under_one_lease(self):
        queue = unique("shared-lease")
        for partition in ("a", "b", "c"):
            await self.push(queue, 1, 2, 3, partition=partition)
        messages = await self.popping(queue, batch=7).partitions(3).pop()
        self.assertEqual(len(messages), 7)
        self.assertEqual(len({message["leaseId"] for message in messages}), 1)
        self.assertEqual({message["partition"] for message in messages}, {"a", "b", "c"})
        await self.assert_acked(messages)
        self.assertEqual(len(await self.popping(queue).partitions(3).pop()), 2)

    async def test_commit_on_delivery_takes_no_lease(self):
        queue = unique("commit")
        await self.push(queue, 1, 2)
        messages = await self.popping(queue).commit_on_delivery().pop()
        self.assertEqual(numbers(messages), [1, 2])
        self.assertEqual({message["leaseId"] for message in messages}, {""})
        await self.push(queue, 3)
        self.assertEqual(numbers(await self.take(queue)), [3])

    async def test_a_waiting_pop_on_a_quiet_queue_ends_empty(self):
        queue = unique("quiet")
        self.assertEqual(await self.queen.queue(queue).wait(True).timeout_millis(50).pop(), [])
