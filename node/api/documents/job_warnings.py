"""Warnings about a saved job: tasks that cannot run in the present cluster, and plain secrets."""

from collections.abc import Iterator
from functools import partial

from rota.core.model.job import JobSpec
from rota.core.model.work import Selector
from rota.core.quoting import quoted
from rota.core.timing.calendars import next_permitted
from rota.core.timing.instants import Instant, format_duration
from rota.core.timing.schedule import (
    clock_notes,
    is_startup,
    matches_either_day,
    next_fire,
    one_shot_at,
)
from rota.core.vocabulary.facts import Facts
from rota.node.api.documents.path_warnings import may_have_warnings, path_warnings
from rota.node.api.documents.plain_secret_warnings import plain_secret_warnings
from rota.node.cluster.membership import Membership
from rota.node.context import NodeContext

WARNINGS_MAX = 10
"""The most warnings about one job; further ones are omitted."""


async def warnings_of(spec: JobSpec, node: NodeContext) -> list[str]:
    """Return the warnings about a job, at most `WARNINGS_MAX`, as seen on *node*.

    Warnings about files are omitted if the node's disks do not respond.
    """
    found = list(dict.fromkeys(_missing_labels(spec, node.membership)))
    found += plain_secret_warnings(spec)
    found += schedule_warnings(spec, node.facts.present(), node.clock.now())
    if node.config.etcd:
        found += startup_warnings(spec)
    if may_have_warnings(spec):
        config = node.config
        check = partial(path_warnings, spec, config.node_id, config.labels)
        found += await node.file_checks.result(check) or []
    return found[:WARNINGS_MAX]


def startup_warnings(spec: JobSpec) -> list[str]:
    """Return a warning if a job of a cluster has the schedule ``@startup``."""
    if any(is_startup(schedule) for schedule in spec.schedules):
        return ["@startup is for single nodes: in a cluster the job never starts by that schedule"]
    return []


def schedule_warnings(spec: JobSpec, facts: Facts, now: Instant) -> Iterator[str]:
    """Yield the warnings about the fire times of the schedules of a job.

    They cost a few searches for a fire time for each schedule, however dense it is.
    """
    for number, schedule in enumerate(spec.schedules):
        text = f"the schedule {quoted(schedule.text)}"
        if matches_either_day(schedule):
            yield (
                f"{text} fires on the days that match its day field or its weekday field; with "
                "dayOr: false both must match"
            )
        first = next_fire(schedule, now)
        if first is None:
            if one_shot_at(schedule) is None and not is_startup(schedule):
                yield f"{text} has no fire time left"
            continue
        second, jitter = next_fire(schedule, first), spec.policy_of(number).jitter
        if second is not None and jitter > second - first:
            yield (
                f"{text} has a jitter of {format_duration(jitter)}, longer than the time to its "
                "next fire: most fires then start at the time of the next one"
            )
        exclusion = facts.exclusion_of(spec, schedule)
        if next_permitted(schedule, exclusion, now) is None:
            yield f"{text}: calendars exclude all of its fire times of the next 400 days"
        for note in clock_notes(schedule, now):
            yield f"{text}: {note}"


def _missing_labels(spec: JobSpec, membership: Membership) -> Iterator[str]:
    for task in spec.tasks:
        if task.selector and not living_nodes(membership, task.selector):
            yield (
                f"task {task.name} waits for a node: no living node has the labels "
                f"{labels_text(task.selector)} (`rota cluster members -o wide` shows those of each)"
            )


def living_nodes(membership: Membership, selector: Selector) -> int:
    """Return the number of living nodes with the labels *selector*."""
    members, sessions = membership.members, membership.sessions
    return sum(
        all(member.labels.get(name) == value for name, value in selector)
        for node_id, member in members.items()
        if node_id in sessions
    )


def labels_text(selector: Selector) -> str:
    """Return labels for people: ``gpu=a100, zone=b``."""
    return ", ".join(f"{name}={value}" for name, value in selector)
