"""Pushing: results, duplicates, callbacks, payloads, partitions."""

from support import ClientTest, numbers, unique


class Push(ClientTest):
    async def test_results_stand_in_the_order_of_the_items(self):
        queue = unique("push")
        results = await self.queen.queue(queue).push([{"data": {"n": n}} for n in range(5)])
        self.assertEqual([result["index"] for result in results], [0, 1, 2, 3, 4])
        self.assertEqual({result["status"] for result in results}, {"queued"})
        self.assertEqual(len({result["message_id"] for result in results}), 5)
        messages = await self.take(queue)
        self.assertEqual(numbers(messages), [0, 1, 2, 3, 4])
        self.assertEqual([m["id"] for m in messages], [result["message_id"] for result in results])
        self.assertEqual(
            [m["transactionId"] for m in messages], [result["transaction_id"] for result in results]
        )

    async def test_a_repeated_transaction_id_is_told_and_stored_once(self):
        queue = unique("duplicate")
        item = {"transactionId": "order-1", "data": {"n": 1}}
        first = await self.queen.queue(queue).push(item)
        stored, repeated = [], []

        async def on_success(items):
            stored.extend(items)

        async def on_duplicate(items, error):
            repeated.extend(items)

        push = self.queen.queue(queue).push([item, {"transactionId": "order-2", "data": {"n": 2}}])
        results = await push.on_success(on_success).on_duplicate(on_duplicate)
        self.assertEqual([result["status"] for result in results], ["duplicate", "queued"])
        self.assertEqual(results[0]["message_id"], first[0]["message_id"])
        self.assertEqual([item["transactionId"] for item in repeated], ["order-1"])
        self.assertEqual([item["transactionId"] for item in stored], ["order-2"])
        self.assertEqual(numbers(await self.take(queue)), [1, 2])

    async def test_a_refused_push_reaches_its_error_callback(self):
        failures = []

        async def on_error(items, error):
            failures.append((items, error))

        await self.queen.queue("q" * 300).push({"data": 1}).on_error(on_error)
        (items, error), = failures
        self.assertEqual(len(items), 1)
        self.assertIn("queue", str(error))
        self.assertEqual(error.response.status_code, 400)

    async def test_payloads_come_back_as_they_were(self):
        queue = unique("payload")
        payloads = [
            {},
            {"empty": [], "nothing": None, "yes": True, "less": -1.5, "large": 2**53 - 1},
            {"text": "h\u00e9llo \u4e16\u754c \U0001f41d \"quoted\" \\ \n\t"},
            {"deep": {"a": {"b": [1, {"c": ["d"]}]}}},
            [1, "two", None],
            "plain",
            7,
            None,
        ]
        await self.queen.queue(queue).push([{"data": payload} for payload in payloads])
        messages = await self.take(queue)
        self.assertEqual([message["data"] for message in messages], payloads)

    async def test_a_whole_item_without_data_is_the_payload(self):
        queue = unique("whole")
        await self.queen.queue(queue).push({"n": 3, "kind": "plain"})
        (message,) = await self.take(queue)
        self.assertEqual(message["data"], {"n": 3, "kind": "plain"})

    async def test_partitions_are_separate_and_addressable(self):
        queue = unique("partitions")
        await self.push(queue, 1, 2, partition="eu west")
        await self.push(queue, 3, partition="\u00fcs")
        for partition, expected in (("\u00fcs", [3]), ("eu west", [1, 2])):
            messages = await self.popping(queue).partition(partition).pop()
            self.assertEqual(numbers(messages), expected)
            self.assertEqual({message["partition"] for message in messages}, {partition})

    async def test_an_encrypted_queue_delivers_plain_payloads(self):
        queue = await self.make("encrypted", encryption_enabled=True)
        await self.queen.queue(queue).push({"transactionId": "t", "data": {"secret": "\u00fc"}})
        again = await self.queen.queue(queue).push({"transactionId": "t", "data": {"secret": "\u00fc"}})
        self.assertEqual(again[0]["status"], "duplicate")
        (message,) = await self.take(queue)
        self.assertEqual(message["data"], {"secret": "\u00fc"})
        await self.assert_acked(message, "dlq", error="spoilt")
        letters = await self.queen.queue(queue).dlq().get()
        self.assertEqual([letter["data"] for letter in letters["messages"]], [{"secret": "\u00fc"}])
