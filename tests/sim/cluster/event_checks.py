"""Events from outside at the end of a run: each acknowledged one started each of its jobs once."""

from collections import Counter
from typing import Any

import msgspec

from rota.core.model.execution import Origin
from sim.cluster.checks import Violation
from sim.cluster.final_checks import Records
from sim.cluster.outside_events import SentEvent
from sim.cluster.world import World


def see_events(world: World, sent: list[SentEvent], records: Records) -> None:
    """Check the executions that events started; their jobs run side by side, and are not paused.

    Raises:
        Violation: An acknowledged event started too few or too many, or one started a job twice.
    """
    started: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    for execution in records.executions.values():
        if execution.origin is Origin.EVENT:
            event: Any = msgspec.json.decode(execution.parameters)["event"]
            started[event["id"]] += 1
            pairs[execution.job_id, event["id"]] += 1
    if twice := [pair for pair, count in pairs.items() if count > 1]:
        raise Violation(f"events: {twice[:5]} started twice")
    for each in sent:
        if each.jobs is not None and started[each.id] != each.jobs:
            raise Violation(f"events: {each} started {started[each.id]} executions")
    world.counts["executions by events"] += sum(started.values())
