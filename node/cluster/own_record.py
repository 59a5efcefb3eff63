"""Member record of this node at the coordinator."""

from dataclasses import dataclass

import msgspec

from rota.core.model.ids import Session
from rota.core.vocabulary.shard_configuration import NO_SESSION
from rota.node.cluster.known_members import KnownMembers
from rota.node.coordination.coordinator import ACTIVE, AWAY, Coordinator, Member


@dataclass(frozen=True, slots=True)
class MemberRecords:
    """The member records of a node.

    Attributes:
        known: The members in the view of the node.
        own: The record of the node itself.
    """

    known: KnownMembers
    own: "OwnRecord"


class OwnRecord:
    """The member record of this node.

    Args:
        coordinator: The coordinator, which stores the record.
        member: The record of this process.
        known_members: The members in the view of this node.

    Attributes:
        is_registered: Whether the coordinator has the record, in the present session.
        missing_session: The last session of this node that was missing in a view although it had
            begun; `NO_SESSION` if there was none.
    """

    def __init__(
        self, coordinator: Coordinator, member: Member, known_members: KnownMembers
    ) -> None:
        self._coordinator = coordinator
        self._member = member
        self._known_members = known_members
        self.is_registered = False
        self.missing_session: Session = NO_SESSION

    def begin_session(self) -> None:
        """Request that the record is written again, because a new session has begun."""
        self.is_registered = False

    def check(self, found: Member | None) -> None:
        """Request that the record is written again, unless *found* is that of this process.

        A record that marks this node as away is written again, too.

        Another node may have marked this node as away just when it had come back, and a coordinator
        that was restored from a backup has the key of an earlier process, or no record.
        """
        if found is None or found.state == AWAY or found.key != self._member.key:
            self.is_registered = False
        elif found.task_key != self._member.task_key:
            # A node of an earlier version changed the record, and did not know this key.
            self.is_registered = False

    def check_session(self, session: Session, found: Session | None) -> None:
        """Record *session* as missing if a view does not have it.

        Args:
            session: This node's session when the view was requested.
            found: This node's session in the view.
        """
        if session not in (NO_SESSION, found):
            self.missing_session = session

    async def register(self) -> None:
        """Write the record; a state set by an operator stays, even if it is set concurrently.

        Raises:
            CoordinatorUnavailable, OutcomeUnknown, SessionTaken: See `Coordinator.register`.
        """
        # The record as last read; the coordinator refuses the change if its record is another one.
        known = self._known_members.by_id.get(self._member.node_id)
        if known is not None and await self._rewrite(known):
            return
        while not self.is_registered:
            known = (await self._coordinator.view()).members.get(self._member.node_id)
            if known is None:
                await self._coordinator.register(self._member)
                self.is_registered = True
            else:
                self.is_registered = known == self._back(known) or await self._rewrite(known)

    async def _rewrite(self, known: Member) -> bool:
        """Replace the record *known* of this node, and apply the new record here at once.

        Returns:
            False if nothing was written, because *known* is up to date, or because the coordinator
            has another record.
        """
        fresh = self._back(known)
        if known == fresh or not await self._coordinator.change(known, fresh):
            return False
        self.is_registered = True
        if self._known_members.by_id.get(fresh.node_id) == known:
            # Links wait for this record: other nodes accept this process only with it.
            self._known_members.change({fresh.node_id: fresh})
        return True

    def _back(self, known: Member) -> Member:
        """Return the record of this process with the state of *known*, unless that is away (R29).

        A running node is active again instead of away. The key of the tokens of tasks is kept, so
        that tokens of tasks from before a restart of this node stay valid.
        """
        state = ACTIVE if known.state == AWAY else known.state
        if known.task_key:
            self._member = msgspec.structs.replace(self._member, task_key=known.task_key)
        return msgspec.structs.replace(self._member, state=state)
