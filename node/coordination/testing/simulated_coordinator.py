"""Coordination in memory, over links that a simulation can slow down, make lossy or cut.

One `SimulatedServer` is the coordinator of a cluster; each node has a `SimulatedCoordinator`, the
node's end of a link to the server. A `Link` decides the fate of each call. This module does not
read the wall clock and draws no random numbers of its own, so a simulation that repeats its times
and draws has the same result.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Protocol, TypeVar

import msgspec

from rota.core.errors import RotaError
from rota.core.model.ids import NodeId, Session
from rota.core.model.shared_document import DocumentKey, SharedDocument
from rota.core.timing.instants import SECOND
from rota.core.vocabulary.shard_configuration import Swap, Swapped
from rota.node.coordination.agreed_state import CoordinationState
from rota.node.coordination.coordinator import (
    Claim,
    Cluster,
    DocumentNews,
    Documents,
    Grant,
    Member,
    News,
    View,
)
from rota.node.coordination.coordinator_errors import (
    CoordinatorRefused,
    CoordinatorUnavailable,
    OutcomeUnknown,
)
from rota.node.coordination.coordinator_rules import check_swaps, still_taken
from rota.node.system.clock import Clock
from rota.node.system.entropy import Entropy

T = TypeVar("T")

RENEW_TIMEOUT_S = 1.0
CALL_TIMEOUT_S = 3.0
"""The time limits of a renewal and of other calls are those of the client of etcd."""
RECONNECT_S = 0.2
"""The pause between two tries of a watch over a link that is cut."""
LOOK_S_MIN = 0.001
"""The least wait, since a timer of the event loop may fire shortly before the clock's time."""
BEGIN_ROUNDS = 3
"""The most rounds of a begin; two may be needed if an earlier try began a session in between."""


class Fate(msgspec.Struct, frozen=True, kw_only=True):
    """The fate of one call.

    Attributes:
        arrives_s: The time in seconds from the call to the execution of the request; None if it is
            never executed. It may be longer than the call's time limit: then the caller has given
            up, and the request is executed nevertheless.
        returns_s: The time in seconds from the execution to the answer; None if the answer is lost.
        is_refused: Whether the call fails at once, without effect.
        refusal: The coordinator's reason to refuse the call, without effect; empty if it does not.
    """

    arrives_s: float | None = 0.0
    returns_s: float | None = 0.0
    is_refused: bool = False
    refusal: str = ""


class Link(Protocol):
    """The faults of a simulation between a node and the coordinator."""

    def fate(self, node_id: NodeId, call: str) -> Fate:
        """Return the fate of a call.

        *call* is the name of the method; `begin_session` first reads the sessions (``view``) and
        ends the earlier session (``end_session``), which are separate calls. For a watch, this is
        called before each step is delivered; a step that never arrives, or whose answer is lost, is
        delivered again.
        """
        ...


class PerfectLink:
    """A link without faults and delays."""

    def fate(self, node_id: NodeId, call: str) -> Fate:
        """Return a fate without faults."""
        del node_id, call
        return Fate()


class SimulatedServer:
    """The server that all nodes of a simulated cluster share.

    Args:
        clock: The clock by which sessions expire.

    Attributes:
        state: The agreed state; a simulation reads it, and injects faults by `change`.
        is_up: Whether the server accepts requests.
        clock: The same as the argument.
        context: The context in which requests are executed, so that they are independent of their
            callers.
    """

    def __init__(self, clock: Clock) -> None:
        self.state = CoordinationState()
        self.is_up = True
        self.clock = clock
        self.context = copy_context()
        self._changed = asyncio.Event()

    def change(self, work: Callable[[CoordinationState], T]) -> T:
        """Apply *work* to the state at the present time; wake the watches if it made a step."""
        before = self.state.revision
        self.state.expire(self.clock.elapsed())
        answer = work(self.state)
        if self.state.revision != before:
            self._wake()
        return answer

    def crash(self) -> None:
        """Stop accepting requests; no session expires before `restart`."""
        self.is_up = False

    def restart(self) -> None:
        """Accept requests again; all times to live begin again."""
        self.is_up = True
        self.state.restart(self.clock.elapsed())
        self._wake()

    def restore(self, backup: CoordinationState) -> None:
        """Replace the state by *backup*, an earlier copy of it."""
        self.state = backup.copy()
        self.restart()

    async def steps_after(self, revision: int) -> list[News]:
        """Return the steps after *revision*; wait until there is at least one.

        Raises:
            WatchLost: See `CoordinationState.steps_after`.
        """
        return await self._first(lambda state: state.steps_after(revision))

    async def document_steps_after(self, revision: int) -> list[DocumentNews]:
        """Return the steps of documents after *revision*; wait until there is at least one.

        Raises:
            WatchLost: See `CoordinationState.steps_after`.
        """
        return await self._first(lambda state: state.document_steps_after(revision))

    async def _first(self, look: Callable[[CoordinationState], list[T]]) -> list[T]:
        """Return the result of *look*; wait until it is not empty.

        Raises:
            WatchLost: See `CoordinationState.steps_after`.
        """
        while True:
            if self.is_up:
                self.change(lambda _: None)
                if found := look(self.state):
                    return found
            with suppress(TimeoutError):
                async with asyncio.timeout(self._until_expiry_s()):
                    await self._changed.wait()

    def _until_expiry_s(self) -> float | None:
        """Return the seconds until the next check for expired sessions; None for no check."""
        ends_at = self.state.next_expiry
        if ends_at is None or not self.is_up:
            return None
        return max(LOOK_S_MIN, (ends_at - self.clock.elapsed()) / SECOND)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class SimulatedCoordinator:
    """The coordinator as a node of the simulation uses it.

    Every request ends within 3 seconds, a renewal within 1 second.

    Args:
        server: The server.
        node_id: The node.
        link: The link between the node and the server.
        entropy: The source of the ids of sessions.
    """

    has_lasting_revisions = True

    def __init__(
        self, server: SimulatedServer, node_id: NodeId, *, link: Link, entropy: Entropy
    ) -> None:
        self._server = server
        self._node_id = node_id
        self._link = link
        self._entropy = entropy

    async def found(self, wanted: Cluster) -> Cluster:
        """See `Coordinator`."""
        return await self._call("found", lambda state: state.found(wanted))

    async def recover(self, expected: Cluster | None, fresh: Cluster) -> bool:
        """See `Coordinator`."""
        return await self._call("recover", lambda state: state.recover(expected, fresh))

    async def register(self, member: Member) -> None:
        """See `Coordinator`."""
        await self._call("register", lambda state: state.register(member))

    async def change(self, expected: Member, fresh: Member) -> bool:
        """See `Coordinator`."""
        return await self._call("change", lambda state: state.change(expected, fresh))

    async def forget(self, node_id: NodeId) -> bool:
        """See `Coordinator`."""
        return await self._call("forget", lambda state: state.forget(node_id))

    async def begin_session(self, claim: Claim, ttl_s: float) -> Grant:
        """See `Coordinator`; a round has up to three requests, each with its own fate."""
        for _ in range(BEGIN_ROUNDS):
            earlier = await self._call("view", lambda state: state.predecessor(claim), is_read=True)
            if earlier is not None:
                await self.end_session(earlier)
            if grant := await self._begin(claim, ttl_s):
                return grant
        raise still_taken(claim)

    async def _begin(self, claim: Claim, ttl_s: float) -> Grant | None:
        session = Session(f"{self._entropy.draw():016x}")
        clock = self._server.clock
        return await self._call(
            "begin_session",
            lambda state: state.begin(claim, session, ttl_s=ttl_s, now=clock.elapsed()),
        )

    async def renew(self, session: Session) -> float | None:
        """See `Coordinator`."""
        clock = self._server.clock
        return await self._call(
            "renew", lambda state: state.renew(session, clock.elapsed()), timeout_s=RENEW_TIMEOUT_S
        )

    async def end_session(self, session: Session) -> None:
        """See `Coordinator`."""
        await self._call("end_session", lambda state: state.end(session))

    async def view(self) -> View:
        """See `Coordinator`."""
        return await self._call("view", lambda state: state.view(), is_read=True)

    async def watch(self, revision: int) -> AsyncGenerator[News]:
        """See `Coordinator`."""
        while True:
            for step in await self._server.steps_after(revision):
                fate = self._link.fate(self._node_id, "watch")
                if fate.is_refused or fate.arrives_s is None or fate.returns_s is None:
                    await asyncio.sleep(RECONNECT_S)
                    break
                await asyncio.sleep(fate.arrives_s + fate.returns_s)
                revision = step.revision
                yield step

    async def documents(self) -> Documents:
        """See `Coordinator`."""
        return await self._call("documents", lambda state: state.documents(), is_read=True)

    async def watch_documents(self, revision: int) -> AsyncGenerator[DocumentNews]:
        """See `Coordinator`."""
        while True:
            for step in await self._server.document_steps_after(revision):
                fate = self._link.fate(self._node_id, "watch_documents")
                if fate.is_refused or fate.arrives_s is None or fate.returns_s is None:
                    await asyncio.sleep(RECONNECT_S)
                    break
                await asyncio.sleep(fate.arrives_s + fate.returns_s)
                revision = step.revision
                yield step

    async def change_document(
        self, key: DocumentKey, expected: SharedDocument | None, fresh: SharedDocument | None
    ) -> bool:
        """See `Coordinator`."""
        return await self._call(
            "change_document", lambda state: state.change_document(key, expected, fresh)
        )

    async def swap(self, swaps: Sequence[Swap]) -> list[Swapped]:
        """See `Coordinator`."""
        check_swaps(swaps)
        return await self._call("swap", lambda state: state.swap(swaps))

    async def close(self) -> None:
        """Do nothing; requests that are under way arrive nevertheless."""

    async def _call(
        self,
        name: str,
        work: Callable[[CoordinationState], T],
        *,
        is_read: bool = False,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> T:
        """Send a request, and return its answer if it arrives in time."""
        fate = self._link.fate(self._node_id, name)
        if fate.is_refused or not self._server.is_up:
            raise CoordinatorUnavailable(f"{name}: the coordinator cannot be reached")
        if fate.refusal:
            raise CoordinatorRefused(f"{name}: {fate.refusal}")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        if fate.arrives_s is not None:
            # A timer is used, so that the request is executed even if the caller has given up.
            loop.call_later(
                fate.arrives_s,
                self._arrive,
                work,
                answer,
                fate.returns_s,
                context=self._server.context,
            )
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError as error:
            unanswered = f"{name}: no answer within {timeout_s:g} s"
            raise (CoordinatorUnavailable if is_read else OutcomeUnknown)(unanswered) from error

    def _arrive(
        self,
        work: Callable[[CoordinationState], T],
        answer: asyncio.Future[T],
        returns_s: float | None,
    ) -> None:
        """Execute a request at the server, and send the answer back."""
        if not self._server.is_up:
            return
        try:
            result = self._server.change(work)
        except RotaError as refusal:
            self._return(returns_s, answer, partial(answer.set_exception, refusal))
        else:
            self._return(returns_s, answer, partial(answer.set_result, result))

    def _return(
        self, returns_s: float | None, answer: asyncio.Future[T], tell: Callable[[], None]
    ) -> None:
        def come_back() -> None:
            if not answer.done():
                tell()

        if returns_s is not None:
            asyncio.get_running_loop().call_later(returns_s, come_back)
