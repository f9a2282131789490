"""What the description of the API cannot say, for schemathesis (see schemathesis.toml beside this file)."""

import re

import schemathesis

NAME_MAX = 255
TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
# They refuse times in the wrong order, in the future (which has no history) and too far apart.
HISTORY = ("/api/v1/status", "/api/v1/status/analytics")


def on(value):
    return str(value).lower() in ("true", "1")


def too_long(value):
    """Names are bounded in bytes; JSON Schema counts characters."""
    if isinstance(value, str):
        return len(value) <= NAME_MAX < len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, dict):
        return any(too_long(part) for part in value.values())
    if isinstance(value, list):
        return any(too_long(part) for part in value)
    return False


@schemathesis.hook
def filter_case(ctx, case):
    return not any(too_long(part) for part in (case.query, case.path_parameters, case.body))


@schemathesis.hook
def before_call(ctx, case, kwargs):
    if isinstance(case.body, dict) and case.operation.path.startswith("/api/v1/system/maintenance"):
        switch_off(case.body)
    if isinstance(case.query, dict):
        agree(case, case.query)


def switch_off(body):
    """Switched on, maintenance would have every other operation answer as if there were nothing (pops) or wait (pushes), and
    nothing more would be found out. Switching on is left to the black-box tests."""
    if body.get("enabled") is True:
        body["enabled"] = False


def agree(case, query):
    """Parameters that depend on each other: the description tells of each by itself."""
    if case.operation.path.startswith("/api/v1/pop"):
        if on(query.get("conflation")):
            query["consumerGroup"] = query.get("consumerGroup") or "group"
            query.pop("autoAck", None)
        # Read only when a group meets a queue for the first time.
        if query.get("subscriptionFrom"):
            query["subscriptionFrom"] = "now"
        if not on(query.get("wait")):
            query.pop("timeout", None)
    if case.operation.path == "/api/v1/pop" and not (query.get("namespace") or query.get("task")):
        query["namespace"] = "namespace"
    if case.operation.path.startswith("/api/v1/dlq") and query.get("partition"):
        query["queue"] = query.get("queue") or "queue"
    if case.operation.path in HISTORY or case.operation.path.startswith("/api/v1/analytics/"):
        put_in_order(query)


def put_in_order(query):
    """An hour of the past instead of any times; what is no time stays, and must be refused."""
    hour = {"from": "2026-01-31T12:00:00Z", "to": "2026-01-31T13:00:00Z"}
    if any(is_time(query.get(name)) for name in hour):
        for name, moment in hour.items():
            if not query.get(name) or is_time(query[name]):
                query[name] = moment


def is_time(value):
    return isinstance(value, str) and TIME.fullmatch(value) is not None
