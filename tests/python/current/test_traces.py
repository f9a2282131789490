"""Traces: what a handler notes about its message, found by message and by name."""

from support import ClientTest, unique


class Traces(ClientTest):
    async def test_what_a_handler_notes_is_found_again(self):
        queue, name, noted = unique("traced"), unique("name"), []
        await self.push(queue, 1)

        async def handler(message):
            for step in ("begun", "done"):
                note = {"traceName": [name, f"{name}-2"], "eventType": "step", "data": {"step": step}}
                noted.append((message, await message["trace"](note)))

        builder = self.queen.queue(queue).group("g").subscription_mode("all")
        await builder.batch(1).limit(1).consume(handler)
        self.assertEqual([answer["success"] for _, answer in noted], [True, True])
        message = noted[0][0]
        admin = self.queen.admin
        found = await admin.get_traces_for_message(message["partitionId"], message["transactionId"])
        self.assertEqual([trace["data"]["step"] for trace in found["traces"]], ["begun", "done"])
        self.assertEqual({trace["event_type"] for trace in found["traces"]}, {"step"})
        self.assertEqual({trace["consumer_group"] for trace in found["traces"]}, {"g"})
        by_name = await admin.get_traces_by_name(name, limit=10)
        self.assertEqual(by_name["total"], 2)
        self.assertEqual({trace["transaction_id"] for trace in by_name["traces"]}, {message["transactionId"]})
        names = await admin.get_trace_names(limit=500)
        (entry,) = [entry for entry in names["trace_names"] if entry["trace_name"] == name]
        self.assertEqual((entry["trace_count"], entry["message_count"]), (2, 1))

    async def test_a_trace_of_an_unknown_message_does_not_disturb_the_handler(self):
        queue, answers = unique("untraceable"), []
        await self.push(queue, 1)

        async def handler(message):
            message["transactionId"], known = "nobody", message["transactionId"]
            answers.append(await message["trace"]({"data": {}}))
            message["transactionId"] = known

        await self.queen.queue(queue).batch(1).limit(1).consume(handler)
        self.assertEqual([answer["success"] for answer in answers], [False])
        await self.assert_empty(queue)
