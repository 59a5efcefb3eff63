"""Who waits for a place gets one: of this node, or of another that lends it.

A task starts on its shard's primary while that has places. When it has none it asks others for some
of theirs, those with the most to spare first; a node lends what nobody of its own waits for, and
what becomes free while it is asked. So a place is promised to one node at a time, and no task is
sent where it would wait again.

    has too few                     has some
      AskPlaces ----------------------->      so many tasks wait that may run there
                <----------------------- GivePlaces   as soon as there are any
      Dispatch  ----------------------->      see `rota.node.attempts.inbound_attempts`
      ReturnPlaces -------------------->      of those, so many were not needed after all

Any of them may be lost: who wants places asks again, and places that nobody uses for `LOAN` are the
lender's again. Each node has at most one question open at each other one.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

from rota.core.model.attempt import Selector
from rota.core.model.ids import NodeId, Session
from rota.core.timing.instants import MILLISECOND, SECOND, Duration, Instant, later
from rota.core.vocabulary.commands import StartTask
from rota.core.vocabulary.decision import FreeSlots
from rota.core.vocabulary.shard_configuration import NO_SESSION
from rota.node.attempts.slots import SlotTable
from rota.node.cluster.membership import Membership
from rota.node.coordination.coordinator import ACTIVE, Member
from rota.node.peers.messages import ABOUT_NONE, AskSlots, LendSlots, ReturnSlots
from rota.node.peers.network import Network
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard
from rota.node.system.clock import Clock

ASKED_MAX = 64
"""Places that one question asks for: what can be started in about the time that it takes."""
ASKED_AT_ONCE = 3
"""Nodes that are asked for the same tasks, where one alone would not have enough."""
AGAIN = Duration(500 * MILLISECOND)
"""After which one that has not answered is asked anew."""
LOAN = Duration(2 * SECOND)
"""How long places are kept for whoever was given them."""


@dataclass(slots=True)
class _Question:
    """What this node has asked another."""

    number: int
    asked_at: Instant


@dataclass(slots=True)
class _Request:
    """What another node has asked this one."""

    store_id: str
    incarnation: int
    number: int
    count: int
    heard_at: Instant

    @property
    def order(self) -> tuple[int, int]:
        """Position among the questions of that node with that data directory."""
        return self.incarnation, self.number


@dataclass(slots=True)
class _Loan:
    """What another node has been given, and not yet used."""

    count: int
    until: Instant


class SlotLending:
    """Gives places to those who wait.

    Args:
        slot_table: Of this node.
        shards: Of this node.
        membership: Who else there is.
        network: To them.
        free_of: Places that each of them had to spare when it told last.
        clock: By which questions and loans run out.
        incarnation: Of this node.
        first_number: Of a question; random, so that answers for an earlier life mean nothing now.
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
        """Whether there is nobody to ask until somebody answers or it is time to ask again."""
        self._requests: dict[NodeId, _Request] = {}
        self._answered: dict[NodeId, _Request] = {}
        """The newest question answered of each node."""
        self._loans: dict[NodeId, _Loan] = {}
        self._is_planned = False

    def fill(self) -> None:
        """Give free places to those who wait, soon: once for all that a turn of the loop frees."""
        if not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._fill)

    def _fill(self) -> None:
        """Give free places to those who wait here; then see what others can do, on both sides."""
        self._is_planned = False
        for shard, command in self._slot_table.call():
            self._start(shard, command)
        if self._requests:
            self._lend()
        if self._slot_table.waiting and not self._is_asking:
            self._borrow()

    def tick(self) -> None:
        """Take back what nobody used, and ask again."""
        now = self._clock.elapsed()
        for borrower in [each for each, loan in self._loans.items() if loan.until <= now]:
            self._slot_table.freed(self._loans.pop(borrower).count)
        for borrower in list(self._requests):
            if now - self._requests[borrower].heard_at > 2 * AGAIN:
                del self._requests[borrower]  # It asks again for as long as it wants any.
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
            for node_id, asked in self._whom_to_ask(selector, wanted):
                question = self._questions.get(node_id)
                if question is not None and now - question.asked_at < AGAIN:
                    continue
                number = next(self._numbers)
                self._questions[node_id] = _Question(number, now)
                ask = AskSlots(incarnation=self._incarnation, number=number, count=asked)
                self._network.send(node_id, ABOUT_NONE, ask)

    def _whom_to_ask(self, selector: Selector, wanted: int) -> Iterator[tuple[NodeId, int]]:
        """Yield nodes that suit and how many places to ask each for, the least loaded first."""
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
        """Start tasks in the places of another node, and give back those that none needs."""
        question = self._questions.get(lender)
        is_expected = question is not None and question.number == answer.number
        if is_expected:
            del self._questions[lender]
            self._is_asking = False
        # What comes twice, or to a question that was asked anew, was given once too often.
        usable = answer.count if is_expected else 0
        self._use(lender, answer.session, usable, answer.count)
        self.fill()

    def unneeded(self, place: FreeSlots) -> None:
        """Have somebody else start in a borrowed place whose task has no need of it any more."""
        self._use(place.node_id, place.session, 1, 1)

    def _use(self, lender: NodeId, session: Session, usable: int, lent: int) -> None:
        member = self._membership.members.get(lender)
        called: list[tuple[Shard, StartTask]] = []
        if member is not None:
            called = self._slot_table.call_away(lender, session, member.labels, usable)
        for shard, command in called:
            self._start(shard, command)
        if len(called) < lent:
            rest = ReturnSlots(count=lent - len(called))
            self._network.send(lender, ABOUT_NONE, rest)

    # -- to lend --------------------------------------------------------------------------------

    def asked(self, borrower: NodeId, question: AskSlots) -> None:
        """Lend another node places, now or as soon as there are any."""
        now = self._clock.elapsed()
        store_id = self._membership.store_of(borrower)
        request = _Request(store_id, question.incarnation, question.number, question.count, now)
        answered = self._answered.get(borrower)
        # Incarnations are numbered in the data directory: another one begins with its calendar.
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
            loan.count += lent
            loan.until = later(now, LOAN)
            answer = LendSlots(number=request.number, count=lent, session=session)
            self._network.send(borrower, ABOUT_NONE, answer)

    def returned(self, borrower: NodeId, message: ReturnSlots) -> None:
        """Take back places that another node has no use for."""
        self._slot_table.freed(self._take_back(borrower, message.count))
        self.fill()

    def freed(self) -> None:
        """Take back the place of an attempt that did not begin after all."""
        self._slot_table.freed()
        self.fill()

    def claim(self, borrower: NodeId) -> bool:
        """Use one of the places lent to another node for an attempt that it sends.

        Where the loan has run out any free place will do.

        Returns:
            Whether there is one.
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
        taken = min(loan.count, wanted)
        loan.count -= taken
        if not loan.count:
            del self._loans[borrower]
        return taken


def _suits(member: Member, selector: Selector) -> bool:
    return all(member.labels.get(name) == value for name, value in selector)
