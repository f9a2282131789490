"""What the description of the API cannot say, for schemathesis (see schemathesis.toml beside this file)."""

import schemathesis

NAME_MAX = 255


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
    """Parameters that depend on each other: the description tells of each by itself."""
    query = case.query
    if not isinstance(query, dict):
        return
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
