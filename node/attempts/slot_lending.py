"""Assignment of free slots to waiting tasks: local slots first, then slots lent by other nodes.

A task starts on its shard's primary while that node has free slots. A primary without a free slot
requests slots from other nodes, beginning with those that have the most free slots. A node lends
slots for which none of its own tasks wait, including slots that become free while a request waits.
A slot is thus reserved for one node at a time, and no task is sent to a node where it would wait
again.

    borrower                        lender
      AskSlots  ----------------------->      the number of waiting tasks that may run there
                <----------------------- LendSlots   as soon as slots are free
      Dispatch  ----------------------->      see `rota.node.attempts.inbound_attempts`
      ReturnSlots --------------------->      the number of lent slots that are not needed

Any of these messages may be lost: the borrower repeats its request, and the lender takes back slots
that are not used for `LOAN`. A node has at most one open request at each other node.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

from rota.core.model.ids import NodeId, Session
from rota.core.model.work import Selector
from rota.core.timing.instants import MILLISECOND, SECOND, Duration, Instant, later
from rota.core.vocabulary.commands import StartTask
from rota.core.vocabulary.decision import FreeSlots
from rota.core.vocabulary.shard_configuration import NO_SESSION
from rota.node.attempts.slots import SlotTable
from rota.node.cluster.membership import Membership
from rota.node.coordination.coordinator import ACTIVE, Member
from rota.node.peers.messages import AskSlots, LendSlots, ReturnSlots
from rota.node.peers.network import Network
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard
from rota.node.system.clock import Clock

ASKED_MAX = 64
"""The most slots in one request: about as many as tasks can be started until the response."""
ASKED_AT_ONCE = 3
"""The most nodes that get a request for the same tasks, if the first nodes have too few slots."""
AGAIN = Duration(500 * MILLISECOND)
"""The time after which a request without a response is repeated."""
LOAN = Duration(2 * SECOND)
"""The time for which lent slots are reserved."""


@dataclass(slots=True)
class _Question:
    """A request of this node to another node."""

    number: int
    asked_at: Instant


@dataclass(slots=True)
class _Request:
    """A request of another node to this node."""

    store_id: str
    incarnation: int
    number: int
    count: int
    received_at: Instant

    @property
    def order(self) -> tuple[int, int]:
        """The position among the requests of the node with the same data directory."""
        return self.incarnation, self.number


@dataclass(slots=True)
class _Loan:
    """Slots that are lent to another node and are not used yet."""

    count: int
    until: Instant

    def add(self, count: int, until: Instant) -> None:
        """Lend *count* more slots; all slots of the loan are reserved until *until*."""
        self.count += count
        self.until = until

    def take_back(self, wanted: int) -> int:
        """End the loan of at most *wanted* slots; return their number."""
        taken = min(self.count, wanted)
        self.count -= taken
        return taken


class SlotLending:
    """Assignment, borrowing and lending of slots on this node.

    Args:
        slot_table: The slots of this node.
        shards: The shards of this node.
        membership: Has the members of the cluster.
        network: The network to the other nodes.
        free_of: Returns the number of free slots that a node reported last.
        clock: The clock that measures requests and loans.
        incarnation: The incarnation of this node.
        first_number: The number of the first request; random, so that a response to an earlier
            process of this node matches no request of this process.
    """

    def __init__(
        self,
        slot_table: SlotTable,
        shards: Shards,
        membership: Membership,
        network: Network,
        *,
        free_of: Callable[[NodeId], int],
        clock: Clock,
        incarnation: int,
        first_number: int,
    ) -> None:
        self._slot_table = slot_table
        self._shards = shards
        self._membership = membership
        self._network = network
        self._free_of = free_of
        self._clock = clock
        self._incarnation = incarnation
        self._numbers = count(first_number)
        self._questions: dict[NodeId, _Question] = {}
        self._is_asking = False
        """Whether requests were sent, so that none is due before a response or the next tick."""
        self._requests: dict[NodeId, _Request] = {}
        self._answered: dict[NodeId, _Request] = {}
        """The newest request of each node that was granted."""
        self._loans: dict[NodeId, _Loan] = {}
        self._is_planned = False

    def fill(self) -> None:
        """Assign free slots soon, once for all slots freed in one iteration of the event loop."""
        if not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._fill)

    def _fill(self) -> None:
        """Assign free slots to tasks that wait here; then lend the rest, or borrow."""
        self._is_planned = False
        for shard, command in self._slot_table.assign():
            self._start(shard, command)
        if self._requests:
            self._lend()
        if self._slot_table.waiting and not self._is_asking:
            self._borrow()

    def tick(self) -> None:
        """Take back lent slots that were not used, and repeat requests."""
        now = self._clock.elapsed()
        for borrower in [each for each, loan in self._loans.items() if loan.until <= now]:
            self._slot_table.freed(self._loans.pop(borrower).count)
        for borrower in list(self._requests):
            if now - self._requests[borrower].received_at > 2 * AGAIN:
                del self._requests[borrower]  # A borrower that needs slots repeats its request.
        known = self._membership.members
        self._answered = {each: at for each, at in self._answered.items() if each in known}
        self._questions = {each: one for each, one in self._questions.items() if each in known}
        self._is_asking = False
        self.fill()

    def _start(self, shard: Shard, command: StartTask) -> None:
        self._shards.submit(shard, command, lambda _: self.fill())

    # -- to borrow ------------------------------------------------------------------------------

    def _borrow(self) -> None:
        self._is_asking, now = True, self._clock.elapsed()
        for selector, wanted in self._slot_table.wanted.items():
            for node_id, asked in self._lenders(selector, wanted):
                question = self._questions.get(node_id)
                if question is not None and now - question.asked_at < AGAIN:
                    continue
                number = next(self._numbers)
                self._questions[node_id] = _Question(number, now)
                ask = AskSlots(incarnation=self._incarnation, number=number, count=asked)
                self._network.send(node_id, None, ask)

    def _lenders(self, selector: Selector, wanted: int) -> Iterator[tuple[NodeId, int]]:
        """Yield suitable nodes and the number of slots to request, the least loaded node first."""
        fit = [node_id for node_id, member in self._others() if _suits(member, selector)]
        free = {node_id: self._free_of(node_id) for node_id in fit}
        for node_id in sorted(fit, key=lambda each: (-free[each], each))[:ASKED_AT_ONCE]:
            yield node_id, min(wanted, ASKED_MAX)
            wanted -= free[node_id]
            if wanted <= 0:
                return

    def _others(self) -> Iterator[tuple[NodeId, Member]]:
        members, own_id = self._membership.members, self._membership.node_id
        for node_id in self._membership.sessions:
            member = members.get(node_id)
            if member is not None and node_id != own_id and member.state == ACTIVE:
                yield node_id, member

    def given(self, lender: NodeId, answer: LendSlots) -> None:
        """Start tasks in lent slots of another node, and return those that are not needed."""
        question = self._questions.get(lender)
        is_expected = question is not None and question.number == answer.number
        if is_expected:
            del self._questions[lender]
            self._is_asking = False
        # Slots of a repeated response, or of a response to a replaced request, are returned.
        usable = answer.count if is_expected else 0
        self._use(lender, answer.session, usable, answer.count)
        self.fill()

    def unneeded(self, slot: FreeSlots) -> None:
        """Use a borrowed slot that its task did not need for another task, or return it."""
        self._use(slot.node_id, slot.session, 1, 1)

    def _use(self, lender: NodeId, session: Session, usable: int, lent: int) -> None:
        member = self._membership.members.get(lender)
        assigned: list[tuple[Shard, StartTask]] = []
        if member is not None:
            assigned = self._slot_table.assign_lent(lender, session, member.labels, usable)
        for shard, command in assigned:
            self._start(shard, command)
        if len(assigned) < lent:
            rest = ReturnSlots(count=lent - len(assigned))
            self._network.send(lender, None, rest)

    # -- to lend --------------------------------------------------------------------------------

    def asked(self, borrower: NodeId, question: AskSlots) -> None:
        """Lend slots to another node, now or as soon as slots are free."""
        now = self._clock.elapsed()
        store_id = self._membership.store_of(borrower)
        request = _Request(store_id, question.incarnation, question.number, question.count, now)
        answered = self._answered.get(borrower)
        # Incarnations are numbered in the data directory; in a new directory, the numbers begin at
        # the time of the node's wall clock.
        if answered is None or answered.store_id != store_id or request.order > answered.order:
            self._requests[borrower] = request
            self._lend()

    def _lend(self) -> None:
        now, session = self._clock.elapsed(), self._membership.session
        if session == NO_SESSION:
            return
        for borrower, request in list(self._requests.items()):
            lent = min(request.count, self._slot_table.lendable())
            if lent <= 0:
                return
            del self._requests[borrower]
            self._answered[borrower] = request
            self._slot_table.take(lent)
            loan = self._loans.setdefault(borrower, _Loan(0, now))
            loan.add(lent, later(now, LOAN))
            answer = LendSlots(number=request.number, count=lent, session=session)
            self._network.send(borrower, None, answer)

    def returned(self, borrower: NodeId, message: ReturnSlots) -> None:
        """Take back slots that another node does not need."""
        self._slot_table.freed(self._take_back(borrower, message.count))
        self.fill()

    def freed(self) -> None:
        """Take back the slot of an attempt that did not begin."""
        self._slot_table.freed()
        self.fill()

    def claim(self, borrower: NodeId) -> bool:
        """Use a slot that is lent to *borrower*, for an attempt that *borrower* sends.

        If the loan has expired, any free slot is used.

        Returns:
            True if a slot was available.
        """
        if self._take_back(borrower, 1):
            return True
        if self._slot_table.lendable():
            self._slot_table.take(1)
            return True
        return False

    def _take_back(self, borrower: NodeId, wanted: int) -> int:
        loan = self._loans.get(borrower)
        if loan is None:
            return 0
        taken = loan.take_back(wanted)
        if not loan.count:
            del self._loans[borrower]
        return taken


def _suits(member: Member, selector: Selector) -> bool:
    return all(member.labels.get(name) == value for name, value in selector)
