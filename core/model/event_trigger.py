"""Triggers: the events from outside that start a job.

An event is posted to its *channel*: those of one type in one namespace. The channel has a hash slot
as a job has, so one shard orders its events and has the jobs that they may start.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from rota.core.errors import Problem
from rota.core.model.expressions import ExpressionError, evaluate, problem_of_expression
from rota.core.model.ids import NAME_RULE, is_name
from rota.core.quoting import in_quotes, shortened

TRIGGERS_MAX = 20
"""The most triggers of one job."""
LISTENERS_MAX = 100
"""The most jobs that the events of one channel may start: each gets a copy."""
NAMES = frozenset({"event", "params"})
"""The names in the condition of a trigger."""

Event = Mapping[str, Any]  # Any: JSON.


class EventTrigger(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The events that start a job.

    Attributes:
        event: Their type.
        when: The expression over ``event`` and ``params`` under which they do; empty for none.
    """

    event: str
    when: str = ""


def channel_of(namespace: str, event: str) -> str:
    """Return the channel of the events of a type, which differs from the full name of any job."""
    return f"@{namespace}/{event}"


def problems_of_triggers(triggers: Sequence[EventTrigger]) -> Iterator[Problem]:
    """Yield the errors in the triggers of a job, with pointers into the job's body."""
    if len(triggers) > TRIGGERS_MAX:
        detail = f"has {len(triggers)} items; at most {TRIGGERS_MAX} are allowed"
        yield Problem("/triggers", detail)
    seen: set[str] = set()
    for number, trigger in enumerate(triggers):
        if not is_name(trigger.event):
            detail = f"{in_quotes(trigger.event)} is not the type of an event: {NAME_RULE}"
            yield Problem(f"/triggers/{number}/event", detail)
        elif trigger.event in seen:
            detail = "has a trigger before; join the conditions of both with or"
            yield Problem(f"/triggers/{number}/event", detail)
        elif trigger.when and (problem := problem_of_expression(trigger.when, NAMES)):
            yield Problem(f"/triggers/{number}/when", problem)
        seen.add(trigger.event)


def why_not(triggers: Sequence[EventTrigger], event: Event, params: Any) -> str:
    """Return why none of the *triggers* is for *event*; empty if one is. *params* are JSON."""
    trigger = next((each for each in triggers if each.event == event["type"]), None)
    if trigger is None:
        return f"the job has no trigger for {event['type']}"
    try:
        is_met = not trigger.when or evaluate(trigger.when, {"event": event, "params": params})
    except ExpressionError as error:
        return f"when: {error}"
    return "" if is_met else f"{shortened(trigger.when)} is not true"
