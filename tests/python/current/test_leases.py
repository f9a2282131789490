"""Leases: their end, their renewal, and who may still acknowledge."""

from datetime import datetime, timezone

from support import ClientTest, numbers, unique

#: A lease in seconds short enough to be waited for, and long enough to be renewed in time.
SHORT = 2
#: Longer than that, for a rival who waits and must get nothing.
RIVAL_MILLIS = 3500


class Leases(ClientTest):
    async def test_after_its_lease_a_message_goes_to_the_next_and_the_first_may_not_acknowledge(self):
        queue = await self.make("lapsed", lease_time=SHORT)
        await self.push(queue, 1)
        (first,) = await self.take(queue, "g")
        # Waits at the server for the end of the lease.
        (second,) = await self.take(queue, "g")
        self.assertEqual(second["transactionId"], first["transactionId"])
        self.assertNotEqual(second["leaseId"], first["leaseId"])
        for late in (first, [first]):
            answer = await self.queen.ack(late, True, {"group": "g"})
            self.assertFalse(answer["success"])
            self.assertIn("lease", answer["error"].lower())
        await self.assert_acked(second, group="g")

    async def test_a_renewed_lease_outlives_its_first_end(self):
        queue = await self.make("renewed", lease_time=SHORT)
        await self.push(queue, 1)
        (message,) = await self.take(queue, "g")
        renewed = await self.queen.renew(message)
        self.assertTrue(renewed["success"], renewed)
        end = datetime.fromisoformat(renewed["newExpiresAt"].replace("Z", "+00:00"))
        self.assertGreater((end - datetime.now(timezone.utc)).total_seconds(), 10)
        rival = self.popping(queue, "g").wait(True).timeout_millis(RIVAL_MILLIS)
        self.assertEqual(await rival.pop(), [])
        await self.assert_acked(message, group="g")

    async def test_a_consumer_renews_while_its_handler_works(self):
        queue = await self.make("working", lease_time=SHORT)
        await self.push(queue, 1)
        stolen = []

        async def handler(message):
            # The handler works for as long as the rival waits: past the end of the lease.
            rival = self.popping(queue, "g").wait(True).timeout_millis(RIVAL_MILLIS)
            stolen.extend(await rival.pop())

        builder = self.queen.queue(queue).group("g").subscription_mode("all")
        await builder.batch(1).limit(1).renew_lease(True, 200).consume(handler)
        self.assertEqual(stolen, [])
        await self.assert_empty(queue, "g")

    async def test_one_renewal_covers_all_partitions_of_a_pop(self):
        queue = await self.make("shared", lease_time=60)
        for partition in ("a", "b"):
            await self.push(queue, 1, partition=partition)
        messages = await self.popping(queue).partitions(2).pop()
        self.assertEqual(len(messages), 2)
        (renewed,) = await self.queen.renew(messages)
        self.assertEqual((renewed["success"], renewed["renewed"]), (True, 2))

    async def test_a_lease_that_is_gone_is_not_renewed(self):
        queue = unique("gone")
        await self.push(queue, 1)
        (message,) = await self.take(queue)
        await self.assert_acked(message)
        for lease in (message, "0190f5a0-0000-7000-8000-000000000000"):
            self.assertFalse((await self.queen.renew(lease))["success"])

    async def test_a_retry_gives_the_message_back_without_counting(self):
        queue = await self.make("retry", retry_limit=0)
        await self.push(queue, 1)
        for _ in range(4):
            (message,) = await self.take(queue)
            await self.assert_acked(message, "retry")
        (message,) = await self.take(queue)
        self.assertEqual(numbers([message]), [1])
        answer = await self.assert_acked(message, False)
        self.assertTrue(answer["dlq"])
