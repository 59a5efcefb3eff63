"""Tasks that have waited for a slot for minutes, and the reason, as troubles of a node."""

from collections.abc import Iterator

from rota.core.model.work import Selector
from rota.core.timing.instants import MINUTE, Duration
from rota.node.api.documents.job_warnings import labels_text, living_nodes
from rota.node.context import NodeContext

LONG = Duration(2 * MINUTE)
"""The wait from which on a waiting task counts as a trouble."""


def long_waits(context: NodeContext) -> Iterator[str]:
    """Yield a sentence for each set of labels whose first waiting task has waited for `LONG`.

    Only tasks of shards whose primary is this node are considered.
    """
    table = context.attempts.slot_table
    for wait in table.first_waits():
        if not wait.shard.is_open:
            continue
        ready = wait.shard.state.tasks.get(wait.command.execution_id, {})
        task = ready.get(wait.command.task)
        waited = wait.shard.time(context.clock) - task.ready_at if task else 0
        if waited >= LONG:
            tasks = "1 task waits" if wait.task_count == 1 else f"{wait.task_count} tasks wait"
            since = f"the first for {waited // MINUTE} min"
            yield f"{tasks} for a slot, {since}: {_reason(context, wait.selector)}"


def _reason(context: NodeContext, selector: Selector) -> str:
    if selector and not living_nodes(context.membership, selector):
        return f"no living node has the labels {labels_text(selector)}"
    table = context.attempts.slot_table
    others = "" if context.others is None else ", and no other node lends one"
    return (
        f"{table.used} of {table.slots} slots of this node are used{others}; `rota ps` lists the "
        "running executions"
    )
