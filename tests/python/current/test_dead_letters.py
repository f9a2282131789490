"""Dead letters: how they come to be, how they are listed, sent again and deleted."""

from datetime import datetime, timedelta, timezone

from support import ClientTest, numbers, unique


class DeadLetters(ClientTest):
    async def bury(self, queue, *ns, partition="Default", group=None, error="broken"):
        """Push messages and give each of them up."""
        await self.push(queue, *ns, partition=partition)
        for _ in ns:
            popping = self.popping(queue, group, batch=1).partition(partition)
            (message,) = await popping.pop()
            await self.assert_acked(message, "dlq", group=group, error=error)

    async def test_a_message_that_keeps_failing_is_put_away_with_its_reason(self):
        queue = await self.make("failing", retry_limit=1)
        await self.push(queue, 1, 2)
        for attempt in (1, 2):
            (message,) = await self.take(queue, "g", batch=1)
            answer = await self.assert_acked(message, False, group="g", error=f"attempt {attempt}")
        self.assertTrue(answer["dlq"])
        self.assertEqual(numbers(await self.take(queue, "g")), [2])
        letters = await self.queen.queue(queue).dlq("g").get()
        self.assertEqual(letters["total"], 1)
        (letter,) = letters["messages"]
        self.assertEqual((letter["data"], letter["errorMessage"]), ({"n": 1}, "attempt 2"))
        self.assertEqual((letter["queue"], letter["partition"]), (queue, "Default"))
        self.assertEqual((letter["consumerGroup"], letter["retryCount"]), ("g", 1))
        self.assertEqual(letter["transactionId"], message["transactionId"])
        self.assertEqual((await self.queen.queue(queue).dlq("nobody").get())["total"], 0)

    async def test_letters_of_every_partition_are_listed_in_pages(self):
        queue = unique("pages")
        await self.bury(queue, 1, 2)
        await self.bury(queue, 3, partition="elsewhere")
        letters = await self.queen.queue(queue).dlq().get()
        self.assertEqual((letters["total"], numbers(letters["messages"])), (3, [3, 2, 1]))
        page = await self.queen.queue(queue).dlq().limit(1).offset(1).get()
        self.assertEqual((page["total"], numbers(page["messages"])), (3, [2]))
        chosen = await self.queen.queue(queue).partition("elsewhere").dlq().get()
        self.assertEqual(numbers(chosen["messages"]), [3])

    async def test_letters_are_found_by_time(self):
        queue = unique("times")
        await self.bury(queue, 1)
        now, hour = datetime.now(timezone.utc), timedelta(hours=1)
        listing = self.queen.queue(queue).dlq().from_((now - hour).isoformat()).to((now + hour).isoformat())
        self.assertEqual((await listing.get())["total"], 1)
        listing = self.queen.queue(queue).dlq().to((now - hour).isoformat())
        self.assertEqual((await listing.get())["total"], 0)

    async def test_a_letter_is_sent_again_once(self):
        queue = unique("again")
        await self.bury(queue, 7)
        (letter,) = (await self.queen.queue(queue).dlq().get())["messages"]
        await self.queen.admin.retry_message(letter["partitionId"], letter["transactionId"])
        self.assertEqual(numbers(await self.take(queue)), [7])
        self.assertEqual((await self.queen.queue(queue).dlq().get())["total"], 0)
        with self.assertRaises(Exception) as raised:
            await self.queen.admin.retry_message(letter["partitionId"], letter["transactionId"])
        self.assertEqual(raised.exception.response.status_code, 404)

    async def test_a_letter_is_deleted_and_a_living_message_is_not(self):
        queue = unique("deleted")
        await self.bury(queue, 1)
        await self.push(queue, 2)
        (living,) = await self.take(queue)
        (letter,) = (await self.queen.queue(queue).dlq().get())["messages"]
        delete = self.queen.admin.delete_message
        with self.assertRaises(Exception) as raised:
            await delete(living["partitionId"], living["transactionId"])
        self.assertEqual(raised.exception.response.status_code, 404)
        answer = await delete(letter["partitionId"], letter["transactionId"])
        self.assertIs(answer["success"], True)
        self.assertEqual((await self.queen.queue(queue).dlq().get())["total"], 0)
        await self.assert_acked(living)
