"""What the tests of every version of the client share: a client, names that nobody else uses, and waiting.

Tests wait for events: by a pop that waits at the server, or by looking again until something is true. Both end at a
deadline that no healthy run comes near.
"""

import asyncio
import itertools
import os
import time
import unittest
from datetime import datetime, timezone

from queen import Queen

#: Longest wait for something that happens at once on an idle machine.
PATIENCE = 30.0
#: The same in the clients' unit.
PATIENCE_MILLIS = int(PATIENCE * 1000)

_numbers = itertools.count()


def unique(what):
    """A name that no other test and no other run uses."""
    return f"py-{what}-{os.getpid()}-{time.time_ns()}-{next(_numbers)}"


async def eventually(look, what):
    """What `look` returns, once that is something."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = await look()
        if found:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"did not happen: {what}")


def age(message):
    """Seconds since a message was pushed."""
    pushed = datetime.fromisoformat(message["createdAt"].replace("Z", "+00:00"))
    return (datetime.now(timezone.utc) - pushed).total_seconds()


def numbers(messages):
    """The `n` of each message's data, in order."""
    return [message["data"]["n"] for message in messages]


class ClientTest(unittest.IsolatedAsyncioTestCase):
    """A test with a connected client."""

    async def asyncSetUp(self):
        self.queen = Queen(os.environ["BUGLE_URL"])
        self.addAsyncCleanup(self.queen.close)

    async def make(self, what, **options):
        """A configured queue's name."""
        queue = unique(what)
        answer = await self.queen.queue(queue).config(options).create()
        self.assertIs(answer["configured"], True)
        return queue

    async def push(self, queue, *ns, partition="Default"):
        """Push messages that carry these numbers."""
        items = [{"data": {"n": n}} for n in ns]
        results = await self.queen.queue(queue).partition(partition).push(items)
        self.assertEqual([result["status"] for result in results], ["queued"] * len(ns))
        return results

    def popping(self, queue, group=None, batch=100):
        """A pop that takes what is there and does not wait."""
        builder = self.queen.queue(queue).batch(batch).wait(False)
        return builder.group(group).subscription_mode("all") if group else builder

    async def take(self, queue, group=None, batch=100):
        """What is there, or the first that comes."""
        popping = self.popping(queue, group, batch).wait(True).timeout_millis(PATIENCE_MILLIS)
        messages = await popping.pop()
        self.assertTrue(messages, f"nothing came on {queue}")
        return messages

    async def assert_empty(self, queue, group=None):
        """Nothing can be taken now."""
        self.assertEqual(await self.popping(queue, group).pop(), [])

    async def assert_acked(self, messages, status=True, group=None, error=None):
        """Acknowledge; the server must agree."""
        context = {key: value for key, value in (("group", group), ("error", error)) if value}
        answer = await self.queen.ack(messages, status, context)
        self.assertTrue(answer["success"], answer)
        return answer
