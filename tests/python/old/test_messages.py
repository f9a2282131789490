"""Messages by the old client: push, pop, acknowledge, consume, transactions, groups."""

import asyncio

from support import PATIENCE, PATIENCE_MILLIS, ClientTest, numbers, unique


class Messages(ClientTest):
    async def test_push_pop_and_acknowledge(self):
        queue = await self.make("old", lease_time=60, retry_limit=3)
        await self.push(queue, 1, 2, 3)
        (first,) = await self.queen.queue(queue).pop()
        answer = await self.queen.ack(first)
        self.assertEqual((answer["success"], answer["error"]), (True, None))
        messages = await self.take(queue)
        self.assertEqual(numbers(messages), [2, 3])
        self.assertIs((await self.queen.ack(messages))["success"], True)
        await self.assert_empty(queue)

    async def test_one_call_settles_messages_differently(self):
        queue = await self.make("old-mixed", retry_limit=3)
        await self.push(queue, 1, 2, 3)
        messages = await self.take(queue)
        for message, status in zip(messages, ("completed", "failed", "completed")):
            message["_status"] = status
        await self.queen.ack(messages)
        # What stands after the failure comes again with it.
        self.assertEqual(numbers(await self.take(queue)), [2, 3])

    async def test_a_duplicate_is_told(self):
        queue, told = unique("old-duplicate"), []

        async def on_duplicate(items, error):
            told.extend(items)

        for _ in range(2):
            push = self.queen.queue(queue).push({"transactionId": "t", "data": {"n": 1}})
            await push.on_duplicate(on_duplicate)
        self.assertEqual([item["transactionId"] for item in told], ["t"])

    async def test_consumers_work_concurrently(self):
        queue, seen, done = unique("old-consume"), [], asyncio.Event()
        for lane in range(4):
            await self.push(queue, *range(10), partition=f"lane-{lane}")

        async def handler(messages):
            seen.extend((message["partition"], message["data"]["n"]) for message in messages)
            if len(seen) >= 40:
                done.set()

        builder = self.queen.queue(queue).group("g").subscription_mode("from_beginning")
        builder = builder.concurrency(3).batch(5).timeout_millis(500)
        await asyncio.wait_for(builder.consume(handler, signal=done), PATIENCE)
        self.assertEqual(sorted(seen), [(f"lane-{lane}", n) for lane in range(4) for n in range(10)])

    async def test_a_consumer_survives_its_handlers_failures(self):
        queue, calls = await self.make("old-retry", retry_limit=3), []
        await self.push(queue, 1)

        async def handler(message):
            calls.append(message["data"]["n"])
            if len(calls) < 3:
                raise RuntimeError("not yet")

        builder = self.queen.queue(queue).limit(1).timeout_millis(PATIENCE_MILLIS)
        for _ in range(3):
            await builder.consume(handler)
        self.assertEqual(calls, [1, 1, 1])
        await self.assert_empty(queue)

    async def test_one_lease_over_partitions_is_renewed_once(self):
        queue = await self.make("old-renew", lease_time=60)
        for partition in ("a", "b"):
            await self.push(queue, 1, partition=partition)
        messages = await self.popping(queue).partitions(2).pop()
        self.assertEqual(len({message["leaseId"] for message in messages}), 1)
        (renewed,) = await self.queen.renew(messages)
        self.assertTrue(renewed["success"] and renewed["newExpiresAt"], renewed)

    async def test_a_transaction_names_its_leases_beside_its_operations(self):
        source, target = unique("old-source"), unique("old-target")
        await self.push(source, 1)
        (message,) = await self.take(source, "g")
        transaction = self.queen.transaction().ack(message, "completed", {"consumer_group": "g"})
        answer = await transaction.queue(target).push([{"data": {"n": 2}}]).commit()
        self.assertIs(answer["success"], True)
        await self.assert_empty(source, "g")
        self.assertEqual(numbers(await self.take(target)), [2])
        with self.assertRaises(Exception):
            bogus = {**message, "transactionId": "nobody"}
            await self.queen.transaction().ack(bogus).queue(target).push([{"data": {"n": 3}}]).commit()
        await self.assert_empty(target)

    async def test_groups_subscribe_and_are_deleted(self):
        queue, group = unique("old-groups"), unique("g")
        await self.push(queue, 1)
        new = self.queen.queue(queue).group(group).subscription_mode("new").wait(False)
        self.assertEqual(await new.pop(), [])
        await self.push(queue, 2)
        self.assertEqual(numbers(await self.take(queue, group)), [2])
        self.assertIs((await self.queen.delete_consumer_group(group))["success"], True)
        self.assertEqual(numbers(await self.take(queue, group)), [1, 2])

    async def test_dead_letters_are_listed(self):
        queue = await self.make("old-dead", retry_limit=0)
        await self.push(queue, 1, partition="elsewhere")
        (message,) = await self.take(queue)
        await self.assert_acked(message, False, error="broken")
        letters = await self.queen.queue(queue).dlq().limit(10).get()
        self.assertEqual(letters["total"], 1)
        self.assertEqual(letters["messages"][0]["errorMessage"], "broken")
