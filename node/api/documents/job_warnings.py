"""Warnings about a saved job: what will not work as the cluster is now."""

from collections.abc import Iterator

from rota.core.model.attempt import Selector
from rota.core.model.job import JobSpec
from rota.node.cluster.membership import Membership

WARNINGS_MAX = 10
"""Warnings about one job; further ones are omitted."""


def warnings_of(spec: JobSpec, membership: Membership) -> list[str]:
    """Return the warnings about a job, at most `WARNINGS_MAX`."""
    found = dict.fromkeys(_missing_labels(spec, membership))
    return list(found)[:WARNINGS_MAX]


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
