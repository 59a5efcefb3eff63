"""Conversion of schedules between documents and records; a field of a rule is named once, here."""

from typing import Any

from rota.core.model.job import Misfire, Overlap, SchedulePolicy
from rota.core.timing.instants import Duration, Instant, format_duration, format_instant
from rota.core.timing.schedule import FirePreview, Schedule
from rota.wire.documents import Json, NextFireView, ScheduleBody, ScheduleView

_SAME = ("timezone", "day_or", "spread", "gap", "fold")
"""Fields of a rule that documents have under the same name."""
_OPTIONAL = ("start_at", "end_at", "every")
"""Likewise, null in documents if they are empty."""

Fields = dict[str, Any]  # Any: values of several types.


def shown_rule(schedule: Schedule) -> Fields:
    """Return the fields of a `ScheduleBody` or a `ScheduleView` for a rule."""
    same = {name: getattr(schedule, name) for name in _SAME}
    optional = {name: getattr(schedule, name) or None for name in _OPTIONAL}
    return {"schedule": schedule.text, **same, **optional}


def rule_of(document: ScheduleBody | ScheduleView, full_name: str, **others: Any) -> Schedule:
    """Return the rule in a document of the job *full_name*, unchecked.

    Args:
        document: The document.
        full_name: The name of the job, from which hashed values follow.
        others: Fields whose values replace those of the document.
    """
    same = {name: getattr(document, name) for name in _SAME}
    optional = {name: getattr(document, name) or "" for name in _OPTIONAL}
    fields: Fields = {"text": document.schedule, "seed": full_name, **same, **optional, **others}
    return Schedule(**fields)


def policy_of(body: ScheduleBody, parameters: str, jitter: Duration) -> SchedulePolicy:
    """Return what a schedule, with *parameters* as JSON, has in place of the job's fields."""
    return SchedulePolicy(
        parameters=parameters,
        misfire=None if body.misfire is None else Misfire(body.misfire),
        jitter=jitter,
        max_executions=body.max_executions,
        overlap=None if body.overlap is None else Overlap(body.overlap),
    )


def shown_policy(policy: SchedulePolicy, parameters: Json) -> Fields:
    """Return the fields of a `ScheduleBody` for a policy, whose *parameters* are decoded."""
    return {
        "parameters": parameters,
        "misfire": policy.misfire and policy.misfire.value,
        "jitter": format_duration(policy.jitter) if policy.jitter else 0,
        "max_executions": policy.max_executions,
        "overlap": policy.overlap and policy.overlap.value,
    }


def next_fire_view(number: int, preview: FirePreview, start: Instant) -> NextFireView:
    """Return the document of a future fire time of schedule *number*, which starts at *start*."""
    return NextFireView(
        at=format_instant(preview.instant),
        local=preview.local,
        schedule=number,
        note=preview.note,
        excluded=preview.excluded,
        starts_at=format_instant(start) if start > preview.instant else None,
    )
