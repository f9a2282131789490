"""Transactions: acknowledgements and pushes that happen together or not at all."""

from support import ClientTest, numbers, unique


class Transactions(ClientTest):
    async def test_acknowledgements_and_pushes_are_one_step(self):
        source, target, other = unique("source"), unique("target"), unique("other")
        await self.push(source, 1, 2)
        messages = await self.take(source, "g")
        transaction = self.queen.transaction().ack(messages, "completed", {"consumer_group": "g"})
        transaction = transaction.queue(target).push([{"data": {"n": 10}}, {"data": {"n": 11}}])
        transaction = transaction.queue(other).partition("p").push([{"data": {"n": 12}}])
        answer = await transaction.commit()
        self.assertTrue(answer)
        self.assertEqual(len(answer["results"]), 5)
        await self.assert_empty(source, "g")
        self.assertEqual(numbers(await self.take(target)), [10, 11])
        (message,) = await self.take(other)
        self.assertEqual((message["data"]["n"], message["partition"]), (12, "p"))
        self.assertEqual(numbers(await self.take(source, "untouched")), [1, 2])

    async def test_a_false_acknowledgement_undoes_the_pushes(self):
        source, target = unique("source"), unique("target")
        await self.push(source, 1)
        (message,) = await self.take(source)
        for wrong in ({"transactionId": "nobody"}, {"leaseId": "0190f5a0-0000-7000-8000-000000000000"}):
            transaction = self.queen.transaction().ack({**message, **wrong})
            with self.assertRaises(Exception):
                await transaction.queue(target).push([{"data": {"n": 2}}]).commit()
            await self.assert_empty(target)
        await self.assert_acked(message)

    async def test_a_duplicate_push_undoes_the_acknowledgement(self):
        source, target = unique("source"), unique("target")
        await self.queen.queue(target).push({"transactionId": "once", "data": {"n": 1}})
        await self.push(source, 1)
        (message,) = await self.take(source)
        transaction = self.queen.transaction().ack(message)
        with self.assertRaises(Exception):
            await transaction.queue(target).push([{"transactionId": "once", "data": {"n": 2}}]).commit()
        self.assertEqual(numbers(await self.take(target)), [1])
        await self.assert_acked(message)
        await self.assert_empty(source)

    async def test_one_transaction_settles_the_leases_of_two_pops(self):
        source = unique("two-leases")
        for partition in ("a", "b"):
            await self.push(source, 1, partition=partition)
        messages = [
            (await self.popping(source, "g").partition(partition).pop())[0] for partition in ("a", "b")
        ]
        self.assertEqual(len({message["leaseId"] for message in messages}), 2)
        answer = await self.queen.transaction().ack(messages, "completed", {"consumer_group": "g"}).commit()
        self.assertTrue(answer)
        for partition in ("a", "b"):
            self.assertEqual(await self.popping(source, "g").partition(partition).pop(), [])

    async def test_a_lapsed_lease_rolls_back(self):
        source, target = await self.make("lapsed", lease_time=1), unique("target")
        await self.push(source, 1)
        (late,) = await self.take(source)
        (now,) = await self.take(source)
        with self.assertRaisesRegex(Exception, "(?i)lease"):
            await self.queen.transaction().ack(late).queue(target).push([{"data": {"n": 1}}]).commit()
        await self.assert_empty(target)
        await self.assert_acked(now)

    async def test_a_dlq_status_puts_the_message_away(self):
        source = unique("away")
        await self.push(source, 1)
        (message,) = await self.take(source)
        self.assertTrue(await self.queen.transaction().ack(message, "dlq").commit())
        letters = await self.queen.queue(source).dlq().get()
        self.assertEqual([letter["data"]["n"] for letter in letters["messages"]], [1])
