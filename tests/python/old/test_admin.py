"""Administration by calls that later clients dropped: maintenance, clearing, giving a message up."""

from support import ClientTest, eventually, numbers, unique


class Administration(ClientTest):
    async def test_a_cleared_queue_is_empty_and_goes_on(self):
        queue = unique("old-clear")
        for partition in ("a", "b"):
            await self.push(queue, 1, 2, partition=partition)
        await self.queen.admin.clear_queue(queue, "a")
        messages = await self.popping(queue).partitions(2).pop()
        self.assertEqual({message["partition"] for message in messages}, {"b"})
        await self.queen.ack(messages, "retry")
        await self.queen.admin.clear_queue(queue)
        self.assertEqual(await self.popping(queue).partitions(2).pop(), [])
        await self.push(queue, 3, partition="a")
        self.assertEqual(numbers(await self.take(queue)), [3])

    async def test_a_message_is_given_up_by_its_address(self):
        queue = unique("old-give-up")
        await self.push(queue, 1)
        (message,) = await self.take(queue)
        await self.queen.admin.move_message_to_dlq(message["partitionId"], message["transactionId"])
        letters = await self.queen.queue(queue).dlq().get()
        self.assertEqual(numbers(letters["messages"]), [1])

    async def test_push_maintenance_keeps_messages_for_later(self):
        queue, admin = unique("old-maintenance"), self.queen.admin
        self.addAsyncCleanup(admin.set_maintenance_mode, False)
        self.assertIs((await admin.set_maintenance_mode(True))["maintenanceMode"], True)
        results = await self.queen.queue(queue).push([{"data": {"n": 1}}, {"data": {"n": 2}}])
        self.assertEqual([result["status"] for result in results], ["buffered", "buffered"])
        await self.assert_empty(queue)
        state = await admin.get_maintenance_mode()
        self.assertEqual((state["maintenanceMode"], state["bufferedMessages"]), (True, 2))
        self.assertIs((await admin.set_maintenance_mode(False))["maintenanceMode"], False)
        self.assertEqual(numbers(await self.take(queue)), [1, 2])

        async def drained():
            return (await admin.get_maintenance_mode())["bufferedMessages"] == 0

        await eventually(drained, "nothing is buffered any more")

    async def test_pop_maintenance_pauses_consumers(self):
        queue, admin = unique("old-pause"), self.queen.admin
        await self.push(queue, 1)
        self.addAsyncCleanup(admin.set_pop_maintenance_mode, False)
        self.assertIs((await admin.set_pop_maintenance_mode(True))["popMaintenanceMode"], True)
        await self.assert_empty(queue)
        self.assertIs((await admin.get_pop_maintenance_mode())["popMaintenanceMode"], True)
        await admin.set_pop_maintenance_mode(False)
        self.assertEqual(numbers(await self.take(queue)), [1])
