"""What operators look at: queues, partitions, messages, groups, health, figures."""

from support import ClientTest, eventually, numbers, unique


class Resources(ClientTest):
    async def test_a_queue_is_listed_with_what_it_holds(self):
        namespace, queue = unique("namespace"), unique("listed")
        await self.queen.queue(queue).namespace(namespace).task("mail").create()
        for partition, ns in (("busy", (1, 2, 3)), ("quiet", (4,))):
            await self.push(queue, *ns, partition=partition)
        await self.popping(queue, batch=1).partition("busy").pop()
        admin = self.queen.admin
        (row,) = [row for row in (await admin.list_queues(limit=500))["queues"] if row["name"] == queue]
        self.assertEqual((row["namespace"], row["task"]), (namespace, "mail"))
        self.assertEqual(row["messages"]["total"], 4)
        self.assertEqual((row["messages"]["pending"], row["messages"]["processing"]), (3, 1))
        detail = await admin.get_queue(queue)
        self.assertEqual(detail["totals"]["total"], 4)
        totals = {p["name"]: p["stats"]["total"] for p in detail["partitions"]}
        self.assertEqual((totals["busy"], totals["quiet"]), (3, 1))
        depth = await admin.get_queue_depth(queue)
        self.assertEqual((depth["queue"], depth["pending"], depth["partitionsPending"]), (queue, 4, 2))
        for entry in await self.named(admin.get_namespaces, "namespaces", "namespace", namespace):
            self.assertEqual((entry["queues"], entry["messages"]["total"]), (1, 4))
        self.assertTrue(await self.named(admin.get_tasks, "tasks", "task", "mail"))
        overview = await admin.get_overview()
        self.assertGreaterEqual(overview["queues"], 1)
        self.assertGreaterEqual(overview["messages"]["total"], 4)

    async def named(self, listing, key, name, value):
        """The entries of a listing that carry a name."""
        return [entry for entry in (await listing())[key] if entry[name] == value]

    async def test_partitions_are_ranked_by_what_waits(self):
        queue = unique("ranked")
        for partition, ns in (("quiet", (1,)), ("busy", (1, 2, 3))):
            await self.push(queue, *ns, partition=partition)
        rows = (await self.queen.admin.get_partitions(queue=queue))["partitions"]
        self.assertEqual([(row["partition"], row["pending"]) for row in rows], [("busy", 3), ("quiet", 1)])

    async def test_an_unknown_queue_is_not_found(self):
        for call in (self.queen.admin.get_queue, self.queen.admin.get_queue_detail):
            with self.assertRaises(Exception) as raised:
                await call(unique("nobody"))
            self.assertEqual(raised.exception.response.status_code, 404)

    async def test_the_depth_of_a_group_is_what_it_owes(self):
        queue, group = unique("depth"), unique("g")
        await self.push(queue, 1, 2, 3)
        (message,) = await self.take(queue, group, batch=1)
        await self.assert_acked(message, group=group)
        depth = await self.queen.admin.get_queue_depth(queue, group)
        self.assertEqual((depth["group"], depth["pending"], depth["effectivePending"]), (group, 2, 2))


class Messages(ClientTest):
    async def test_messages_are_listed_and_shown(self):
        queue = unique("messages")
        await self.push(queue, 1, 2)
        admin = self.queen.admin
        listed = await admin.list_messages(queue=queue, limit=10)
        self.assertEqual(len(listed["messages"]), 2)
        (message,) = await self.take(queue, batch=1)
        shown = await admin.get_message(message["partitionId"], message["transactionId"])
        self.assertEqual((shown["queue"], shown["payload"], shown["status"]), (queue, {"n": 1}, "processing"))
        await self.assert_acked(message)
        shown = await admin.get_message(message["partitionId"], message["transactionId"])
        self.assertEqual(shown["status"], "completed")


class Groups(ClientTest):
    async def test_a_group_is_listed_with_its_lag(self):
        queue, group = unique("lag"), unique("g")
        await self.push(queue, 1, 2, 3)
        (message,) = await self.take(queue, group, batch=1)
        await self.assert_acked(message, group=group)
        admin = self.queen.admin
        await admin.refresh_consumer_stats()
        (entry,) = [entry for entry in await admin.list_consumer_groups() if entry["name"] == group]
        self.assertEqual((entry["queueName"], entry["totalLag"], entry["partitionsWithLag"]), (queue, 2, 1))
        (lane,) = (await admin.get_consumer_group(group))[queue]["partitions"]
        self.assertEqual((lane["partition"], lane["offsetLag"], lane["totalConsumed"]), ("Default", 2, 1))

        async def lagging():
            rows = await admin.get_lagging_consumers(0)
            return [row for row in rows if row["consumer_group"] == group]

        (row,) = await eventually(lagging, "the group is among those that lag")
        self.assertEqual((row["queue_name"], row["offset_lag"]), (queue, 2))
        self.assertEqual(numbers(await self.take(queue, group)), [2, 3])


class Figures(ClientTest):
    async def test_health_and_figures_answer(self):
        admin = self.queen.admin
        self.assertEqual((await admin.health())["status"], "healthy")
        for key in ("cpu", "memory", "messages", "requests", "uptime"):
            self.assertIn(key, await admin.metrics())
        queue = unique("figures")
        await self.push(queue, 1)
        status = await admin.get_status()
        for key in ("timeRange", "bucketMinutes", "throughput", "queues", "messages", "leases", "workers"):
            self.assertIn(key, status)
        stats = await admin.get_queue_stats(limit=500)
        self.assertIn(queue, [row["name"] for row in stats["queues"]])
        detail = await admin.get_queue_detail(queue)
        self.assertEqual(detail["totals"]["total"], 1)
        self.assertIsInstance((await admin.get_analytics(interval="minute"))["dataPoints"], list)
        self.assertIsInstance((await admin.get_system_metrics())["replicas"], list)
        self.assertIsInstance((await admin.get_worker_metrics())["timeSeries"], list)
