"""Grants: the verbs of a principal in each namespace."""

from collections.abc import Iterable
from dataclasses import dataclass

from rota.node.access.verbs import CLUSTER_VERBS, EVERY, Verb

KNOWN_MAX = 10_000
"""The most namespaces whose verbs are cached for one principal."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Verbs in some namespaces.

    Attributes:
        verbs: The verbs.
        namespaces: Names of namespaces; a final ``*`` matches any ending.
    """

    verbs: frozenset[Verb]
    namespaces: tuple[str, ...]

    def applies_to(self, namespace: str) -> bool:
        """Return True if the grant has *namespace*; `EVERY` is matched by `EVERY` alone."""
        return any(_matches(pattern, namespace) for pattern in self.namespaces)


def _matches(pattern: str, namespace: str) -> bool:
    if pattern in (namespace, EVERY):
        return True
    return pattern.endswith("*") and namespace != EVERY and namespace.startswith(pattern[:-1])


def is_within(narrow: str, wide: str) -> bool:
    """Return True if every namespace that the pattern *narrow* matches also matches *wide*."""
    if wide in (narrow, EVERY):
        return True
    return narrow != EVERY and wide.endswith("*") and narrow.startswith(wide[:-1])


class Grants:
    """All grants of a principal; the verbs of each namespace are computed once.

    Args:
        grants: The grants.

    Attributes:
        granted: The same as the argument.
    """

    def __init__(self, grants: Iterable[Grant]) -> None:
        self.granted = tuple(grants)
        self._verbs: dict[str, frozenset[Verb]] = {}

    def may(self, verb: Verb, namespace: str) -> bool:
        """Return True if *verb* is granted in *namespace*; `EVERY` is the whole cluster."""
        verbs = self._verbs.get(namespace)
        return verb in (self._verbs_in(namespace) if verbs is None else verbs)

    def may_in_all(self, verb: Verb, pattern: str) -> bool:
        """Return True if *verb* is granted in every namespace that *pattern* may ever match.

        A single grant must have the same or a wider pattern. A verb of the whole cluster is granted
        in `EVERY` only.
        """
        return any(
            verb in grant.verbs and is_within(pattern, wide)
            for grant in self.granted
            for wide in grant.namespaces
            if verb not in CLUSTER_VERBS or wide == EVERY
        )

    def _verbs_in(self, namespace: str) -> frozenset[Verb]:
        granted = (each.verbs for each in self.granted if each.applies_to(namespace))
        verbs = frozenset[Verb]().union(*granted)
        if namespace != EVERY:
            verbs -= CLUSTER_VERBS
        if len(self._verbs) >= KNOWN_MAX:
            self._verbs.clear()
        self._verbs[namespace] = verbs
        return verbs
