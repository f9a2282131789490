"""Consumer groups: their own cursors, where they start, seeking, last-value delivery."""

from datetime import datetime, timedelta, timezone

from support import PATIENCE_MILLIS, ClientTest, eventually, numbers, unique

EPOCH = "1970-01-01T00:00:00Z"


class Groups(ClientTest):
    async def test_every_group_receives_every_message(self):
        queue = unique("groups")
        await self.push(queue, 1, 2, 3)
        first = await self.take(queue, "one")
        await self.assert_acked(first, group="one")
        await self.assert_empty(queue, "one")
        self.assertEqual(numbers(await self.take(queue, "two")), [1, 2, 3])
        self.assertEqual(numbers(await self.take(queue)), [1, 2, 3])

    async def test_a_group_that_starts_with_new_does_not_see_what_was_there(self):
        queue, group = unique("new"), unique("g")
        await self.push(queue, 1)
        new = self.popping(queue).group(group).subscription_mode("new")
        self.assertEqual(await new.pop(), [])
        await self.push(queue, 2)
        await self.push(queue, 3, partition="born later")
        seen = []

        async def both():
            seen.extend(numbers(await self.popping(queue).group(group).partitions(5).pop()))
            return len(seen) >= 2

        await eventually(both, "both later messages")
        self.assertEqual(sorted(seen), [2, 3])

    async def test_a_group_starts_at_a_time(self):
        queue = unique("from")
        await self.push(queue, 1)
        (message,) = await self.take(queue, "look")
        start = datetime.fromisoformat(message["createdAt"].replace("Z", "+00:00"))
        await self.push(queue, 2)
        before, after = (start - timedelta(seconds=1)).isoformat(), start.isoformat()
        popping = self.popping(queue).group("before").subscription_from(before)
        self.assertEqual(numbers(await popping.pop()), [1, 2])
        popping = self.popping(queue).group("after").subscription_from(after)
        self.assertEqual(numbers(await popping.pop()), [2])
        popping = self.popping(queue).group("now").subscription_from("now")
        self.assertEqual(await popping.pop(), [])

    async def test_a_deleted_group_starts_again(self):
        queues, group = [unique("delete-a"), unique("delete-b")], unique("g")
        for queue in queues:
            await self.push(queue, 1, 2)
            await self.assert_acked(await self.take(queue, group), group=group)
        answer = await self.queen.delete_consumer_group(group)
        self.assertEqual((answer["success"], answer["deletedPartitions"]), (True, 2))
        for queue in queues:
            messages = await self.take(queue, group)
            self.assertEqual(numbers(messages), [1, 2])
            await self.assert_acked(messages, group=group)
        await self.queen.admin.delete_consumer_group_for_queue(group, queues[0])
        self.assertEqual(numbers(await self.take(queues[0], group)), [1, 2])
        await self.assert_empty(queues[1], group)

    async def test_seeking_moves_a_group(self):
        queue, group = unique("seek"), unique("g")
        await self.push(queue, 1, 2)
        await self.assert_acked(await self.take(queue, group), group=group)
        seek = self.queen.admin.seek_consumer_group
        answer = await seek(group, queue, {"timestamp": EPOCH})
        self.assertEqual((answer["success"], answer["partitionsUpdated"]), (True, 1))
        self.assertEqual(numbers(await self.take(queue, group)), [1, 2])
        answer = await seek(group, queue, {"toEnd": True})
        self.assertIs(answer["success"], True)
        await self.assert_empty(queue, group)
        await self.push(queue, 3)
        self.assertEqual(numbers(await self.take(queue, group)), [3])
        with self.assertRaisesRegex(Exception, "toEnd"):
            await seek(group, queue, {"position": "earliest"})

    async def test_the_start_of_a_subscription_can_be_moved(self):
        queue, group = unique("subscription"), unique("g")
        await self.push(queue, 1)
        new = self.popping(queue).group(group).subscription_mode("new")
        self.assertEqual(await new.pop(), [])
        when = datetime.now(timezone.utc).isoformat()
        answer = await self.queen.update_consumer_group_timestamp(group, when)
        self.assertEqual((answer["success"], answer["consumerGroup"]), (True, group))
        self.assertEqual(answer["rowsUpdated"], 1)

    async def test_conflation_delivers_the_newest_message_of_a_partition(self):
        queue, group = unique("conflation"), unique("g")
        popping = self.queen.queue(queue).group(group).conflation().subscription_mode("all").wait(False)
        self.assertEqual(await popping.pop(), [])
        await self.push(queue, *range(10), partition="a")
        await self.push(queue, *range(20, 23), partition="b")
        popping = popping.batch(50).partitions(5)
        messages = await popping.pop()
        self.assertEqual(sorted(numbers(messages)), [9, 22])
        await self.assert_acked(messages, group=group)
        self.assertEqual(await popping.pop(), [])
        self.assertEqual(len(await self.popping(queue, "plain").partitions(5).pop()), 13)

    async def test_a_waiting_group_is_woken_by_an_acknowledgement(self):
        queue = await self.make("freed", lease_time=300)
        await self.push(queue, 1, 2)
        (first,) = await self.take(queue, "g", batch=1)
        await self.assert_empty(queue, "g")
        await self.assert_acked(first, group="g")
        waiting = self.popping(queue, "g").wait(True).timeout_millis(PATIENCE_MILLIS)
        self.assertEqual(numbers(await waiting.pop()), [2])
