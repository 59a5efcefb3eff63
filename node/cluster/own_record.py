"""Member record of this node at the coordinator."""

import msgspec

from rota.core.model.ids import Session
from rota.core.vocabulary.shard_configuration import NO_SESSION
from rota.node.cluster.known_members import KnownMembers
from rota.node.coordination.coordinator import ACTIVE, AWAY, Coordinator, Member


class OwnRecord:
    """The member record of this node.

    Args:
        coordinator: Where the record is.
        member: The record of this process.
        known_members: The members in the view of this node.

    Attributes:
        is_registered: Whether the coordinator has the record, in the present session.
        missing_session: The session of this node that a view did not have, though it had begun.
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
        """Have the record written again: a new session has begun."""
        self.is_registered = False

    def check(self, found: Member | None) -> None:
        """Have the record written again unless *found* is that of this process, and not away.

        An operator may have marked the node as away when it had just come back; and a coordinator
        that was restored from a backup has the key of an earlier process, or no record.
        """
        if found is None or found.state == AWAY or found.key != self._member.key:
            self.is_registered = False

    def check_session(self, session: Session, found: Session | None) -> None:
        """Note whether a view has *session*, which had begun before the view was requested."""
        if session not in (NO_SESSION, found):
            self.missing_session = session

    async def register(self) -> None:
        """Write the record; the state that an operator has set stays, also one set meanwhile.

        Raises:
            CoordinatorUnavailable, OutcomeUnknown, SessionTaken: See `Coordinator.register`.
        """
        # The record as last read: if the coordinator has another one by now, it refuses the change.
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
        """Replace the record *known* of this node, and act by the new one before there is news.

        Returns:
            False if nothing was written: there is nothing to change, or the record is another one.
        """
        fresh = self._back(known)
        if known == fresh or not await self._coordinator.change(known, fresh):
            return False
        self.is_registered = True
        if self._known_members.by_id.get(fresh.node_id) == known:
            # Links wait for this: until then no other node accepts this process.
            self._known_members.change({fresh.node_id: fresh})
        return True

    def _back(self, known: Member) -> Member:
        """Return the record of this node, whose record is *known*, now that it runs (R29)."""
        state = ACTIVE if known.state == AWAY else known.state
        return msgspec.structs.replace(self._member, state=state)
