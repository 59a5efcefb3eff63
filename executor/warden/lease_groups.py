"""Lease groups: each attempt belongs to a group, and each group may run until an instant.

Instants are those of CLOCK_BOOTTIME, which also passes while the machine sleeps.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from rota.core.model.attempt import AttemptKey
from rota.core.timing.instants import Instant

NEVER = Instant(0)


@dataclass(slots=True)
class _Group:
    until: Instant = NEVER
    members: set[AttemptKey] = field(default_factory=set[AttemptKey])


class LeaseGroups:
    """The groups, their attempts and the ends of their time."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def allow(self, name: str, until: Instant) -> None:
        """Extend a group's time; an earlier instant changes nothing."""
        group = self._groups.setdefault(name, _Group())
        group.until = max(group.until, until)

    def has_time(self, name: str, now: Instant) -> bool:
        """Return True if a group has time left."""
        group = self._groups.get(name)
        return group is not None and now < group.until

    def add(self, name: str, key: AttemptKey) -> None:
        """Add an attempt to a group."""
        self._groups.setdefault(name, _Group()).members.add(key)

    def remove(self, name: str, key: AttemptKey) -> None:
        """Remove an attempt, which has ended, from its group."""
        self._groups[name].members.discard(key)

    def due(self, now: Instant) -> Iterator[AttemptKey]:
        """Yield the attempts whose time is over; drop groups without time and without attempts."""
        for name, group in list(self._groups.items()):
            if group.until <= now:
                yield from list(group.members)
                if not group.members:
                    del self._groups[name]

    def next_end_after(self, now: Instant) -> Instant | None:
        """Return the first instant after *now* at which a group with attempts ends, or None."""
        ends = (each.until for each in self._groups.values() if each.members)
        return min((end for end in ends if end > now), default=None)
