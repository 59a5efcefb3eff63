"""Suggestions in errors about jobs that do not exist: jobs with similar names, of this node."""

from bisect import bisect_left
from collections.abc import Iterator

from rota.core.near_names import did_you_mean
from rota.node.access.verbs import Verb
from rota.node.api.requests.request_context import RequestContext

NAMES_MAX = 1_024
"""The most names that are looked at for an error, in all shards together."""


def near_jobs(request: RequestContext, namespace: str, name: str) -> str:
    """Return a hint with jobs whose names are similar to *name*; empty without one.

    Only jobs of the same namespace are suggested, only to callers that may read it, and only those
    of shards whose primary is this node: the error is not worth requests to other nodes.
    """
    # Not `RequestContext.may`, which would note a refusal in the mode `observe`.
    if not request.principal.may(Verb.READ, namespace) or not request.take_suggestion():
        return ""
    return did_you_mean(name, _names_around(request, namespace, name), prefix=f"{namespace}/")


def _names_around(request: RequestContext, namespace: str, name: str) -> Iterator[str]:
    """Return names of the namespace, from each open shard those next to *name* in their order.

    In a large namespace these are names with the same beginning, in a small one all names.
    """
    start = f"{namespace}/"
    shards = list(request.node.shards.opened)
    each_side = max(1, NAMES_MAX // (2 * max(1, len(shards))))
    for shard in shards[: NAMES_MAX // 2]:
        # Not `RequestContext.state`: the hint need not wait for the commits of these shards.
        names = shard.state.sorted_names
        place = bisect_left(names, start + name)
        for each in names[max(0, place - each_side) : place + each_side]:
            if each.startswith(start):
                yield each[len(start) :]
