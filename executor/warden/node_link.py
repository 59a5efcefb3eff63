"""The node's end of the socket: finds or starts the warden, and offers its executors.

Several wardens may follow one another. When a warden ends, its attempts end with it; a warden that
does not answer is killed, with the same effect. In both cases a new one is started, and attempts
that it does not hold end as lost. Requests of the node wait meanwhile, limited by its slots.

The requests of one turn of the node's loop are one frame.
"""

import asyncio
import itertools
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from rota.core.errors import RotaError
from rota.core.model.attempt import AttemptKey, Ending, Order, Outcome
from rota.core.model.ids import NodeId
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.executor.attempt_settings import USUAL, AttemptSettings, settings_text
from rota.executor.executor import Ended, Reported
from rota.executor.warden import messages as say
from rota.executor.warden.connections import ToTheWarden
from rota.executor.warden.hosted_executors import digest_of, environment_of_warden, installed
from rota.executor.warden.paths import LOG
from rota.executor.warden.proxies import AttemptEvents, Right, RightOf, WardenExecutor
from rota.executor.warden.warden_processes import LOOK_S, Processes

log = logging.getLogger(__name__)

START_S = 20.0
"""How long a node that starts waits for a warden before it gives up."""
BACK_OFF_S = (0.0, 0.1, 0.5, 2.0, 5.0)
"""Before each try to have a warden again; the last is repeated."""
STEADY_S = 10.0
"""A warden that has served for so long is not replaced because the last one failed."""
BEATS_PER_LEASE = 10
BEATS_MISSED = 5
"""So many turns without a word, half an attempt lease, and the warden counts as hung."""
END_S = 10.0
"""How long the processes of a warden may take to end after they were killed, or asked to."""
KILLED_WITHIN_S = 30.0
"""A killed process may hang in the kernel, on a dead network disk."""
PART_GRACE = Duration(5 * SECOND)
"""What attempts get to end by themselves under a warden that is not understood any more."""
LASTING = (say.Launch, say.Stop, say.Forget)
"""What is still to be said to the next warden."""


class WardenUnavailable(RotaError):
    """There is no warden, and none can be started."""

    code = "warden_unavailable"


class _Attempt(NamedTuple):
    """An attempt that was launched or resumed and has not ended."""

    order: Order
    events: AttemptEvents


class _Said(NamedTuple):
    """A message that waits to be sent, and its bytes."""

    message: say.ToWarden
    encoded: bytes


class WardenLink:
    """A node's warden. Made on the node's loop.

    Args:
        directory: The node's data directory.
        node_id: Passed to the tasks.
        store_id: The mark of the data directory.
        lease: For how long attempts may run without contact with their node.
        now: The clock of the stamps.
        environ: The node's environment; a warden that is started gets of it what it needs.
        terms: What the node's settings say of attempts.

    Attributes:
        why_away: Why there is no warden at the moment; None while there is.
    """

    def __init__(
        self,
        directory: Path,
        *,
        node_id: NodeId,
        store_id: str,
        lease: Duration,
        now: Callable[[], Instant],
        environ: Mapping[str, str] = os.environ,
        terms: AttemptSettings = USUAL,
    ) -> None:
        self.why_away: str | None = "the warden has not been found yet"
        self._directory = directory
        self._beat_s = lease / SECOND / BEATS_PER_LEASE
        self._now = now
        # Told to the warden, for it sees more: an interpreter adds to its environment (PEP 538).
        environ = environment_of_warden(environ)
        self._made_of = digest_of(node_id, environ, terms)
        self._processes = Processes(
            directory,
            (
                *("--node-id", node_id, "--store-id", store_id),
                *("--made-of", self._made_of, "--terms", settings_text(terms)),
            ),
            environ,
        )
        self._loop = asyncio.get_running_loop()
        self._connection: ToTheWarden | None = None
        self._held: dict[AttemptKey, say.Held] = {}
        """What a warden held when it was met, and nobody has asked for."""
        self._known: dict[AttemptKey, _Attempt] = {}
        """What was launched or resumed, and has not ended."""
        self._unforgotten: set[AttemptKey] = set()
        self._allowed: dict[str, Instant] = {}
        self._newly_allowed: dict[str, Instant] = {}
        self._on_death: say.OnDeath | None = None
        self._said: list[_Said] = []
        self._is_flush_planned = False
        self._answers: dict[int, asyncio.Future[say.Data | say.Expired]] = {}
        self._numbers = itertools.count(1)
        self._one_ended = asyncio.Event()
        self._has_met = False
        self._is_outdated = False
        self._is_parting = False
        self._is_closed = False

    # -- for the node ---------------------------------------------------------------------------

    def executors(
        self, ended: Ended, reported: Reported, right_of: RightOf
    ) -> dict[str, WardenExecutor]:
        """Return the warden's executors by name.

        Args:
            ended: Called with the ending of each attempt that they launch or resume.
            reported: Called with the reports of these attempts.
            right_of: Returns the right of each attempt that is launched.
        """
        events = AttemptEvents(ended, reported)
        return {name: WardenExecutor(name, self, events, right_of) for name in installed()}

    @property
    def held(self) -> list[Order]:
        """What the warden held when it was met: to be resumed, for only that tells of its end."""
        return [each.order for each in self._held.values()]

    def allow(self, until: Mapping[str, Instant]) -> None:
        """Extend the time of groups; groups that are not named are not extended."""
        moved = {group: at for group, at in until.items() if at != self._allowed.get(group)}
        self._allowed = dict(until)
        if moved:
            self._newly_allowed |= moved
            self._plan_flush()

    def set_on_death(self, *requests: say.OnDeathRequest) -> None:
        """Set the requests to be sent after the end of this process, replacing earlier ones."""
        on_death = say.OnDeath(requests)
        if on_death != self._on_death:
            self._on_death = on_death
            self._say(on_death)

    def forget(self, key: AttemptKey) -> None:
        """Report to the warden that the outcome of an attempt is recorded."""
        self._unforgotten.discard(key)
        self._say(say.Forget(key))
        if self._is_outdated and not self._unforgotten and not self._held:
            log.info("warden replaced")
            self._say(say.Retire(Duration(0)))
            self._flush()
            self._is_parting = True

    async def connect(self) -> None:
        """Find the warden, or start one.

        Raises:
            WardenUnavailable: There is none after `START_S`; the message says why.
        """
        try:
            async with asyncio.timeout(START_S):
                await self._find()
        except TimeoutError as error:
            why = f"{self.why_away}; {self._directory / LOG} says more"
            raise WardenUnavailable(why) from error

    async def run(self) -> None:
        """Watch the warden, and replace it when it does not answer."""
        tries = 0
        while True:
            if self._connection is not None:
                began = self._loop.time()
                await self._listen(self._connection)
                if self._loop.time() - began > STEADY_S:
                    tries = 0
            await asyncio.sleep(BACK_OFF_S[min(tries, len(BACK_OFF_S) - 1)])
            tries += 1
            try:
                async with asyncio.timeout(START_S):
                    await self._find()
            except TimeoutError:
                log.error("warden not started", extra={"reason": self.why_away})

    async def close(self) -> None:
        """Disconnect from the warden; its attempts continue."""
        self._is_closed = True
        self._flush()
        if self._connection is not None:
            self._connection.close()
            await self._connection.gone.wait()
        self._processes.leave()

    async def retire(self, grace: Duration = Duration(0)) -> None:
        """End the warden with all its attempts, and return when nothing of it is left."""
        self._is_closed = True
        connection = self._connection
        if connection is not None:
            self._say(say.Retire(grace))
            self._flush()
            await self._processes.let_end(connection, grace)

    # -- for the executors ----------------------------------------------------------------------

    def launch(self, order: Order, right: Right, events: AttemptEvents) -> None:
        """Start an attempt."""
        assert order.key not in self._known, f"{order.key} is launched twice"
        self._known[order.key] = _Attempt(order, events)
        self._unforgotten.add(order.key)
        if right.until != self._allowed.get(right.group):
            self._allowed[right.group] = self._newly_allowed[right.group] = right.until
        self._say(say.Launch(right.group, order))

    def resume(self, order: Order, events: AttemptEvents) -> None:
        """Resume an attempt that the warden holds; any other ends as lost."""
        assert order.key not in self._known, f"{order.key} is launched twice"
        self._known[order.key] = _Attempt(order, events)
        self._unforgotten.add(order.key)
        held = self._held.pop(order.key, None)
        if held is None:
            self._loop.call_soon(self._lose, order, "its warden does not hold it")
            return
        if held.report is not None:
            self._loop.call_soon(events.reported, order.key, held.report)
        if held.ending is not None:
            self._loop.call_soon(self._end_attempt, order.key, held.ending)

    def stop(self, key: AttemptKey, grace: Duration | None) -> None:
        """Stop an attempt."""
        if key in self._known:
            self._say(say.Stop(key, grace))

    async def end_all(self, executor: str, grace: Duration) -> None:
        """Stop all attempts of an executor, each within *grace*, and wait for their ends."""

        def mine() -> list[Order]:
            orders = (each.order for each in self._known.values())
            return [order for order in orders if order.work.executor == executor]

        for order in mine():
            self.stop(order.key, min(grace, order.work.stop_grace))
        with suppress(TimeoutError):
            async with asyncio.timeout(grace / SECOND + KILLED_WITHIN_S):
                while mine():
                    self._one_ended.clear()
                    await self._one_ended.wait()

    async def read(
        self, executor: str, key: AttemptKey, offset: int, limit: int, *, is_patient: bool
    ) -> say.Data:
        """Return part of an output; nothing kept while there is no warden.

        Raises:
            OSError: The disk does not give it.
        """
        number = next(self._numbers)
        question = say.Read(number, executor, key, offset, limit, is_patient)
        answer = await self._ask(number, question)
        if not isinstance(answer, say.Data):
            return say.Data(number)
        if answer.error:
            raise OSError(answer.error)
        return answer

    async def expire(self, executor: str, before: Instant) -> int:
        """Remove old outputs, and return how many."""
        number = next(self._numbers)
        answer = await self._ask(number, say.Expire(number, executor, before))
        return answer.count if isinstance(answer, say.Expired) else 0

    async def _ask(
        self, number: int, question: say.Read | say.Expire
    ) -> say.Data | say.Expired | None:
        """Return the answer; None if the warden went away before it came."""
        if self._connection is None:
            return None
        answer: asyncio.Future[say.Data | say.Expired] = self._loop.create_future()
        self._answers[number] = answer
        try:
            self._say(question)
            return await answer
        except ConnectionError:
            return None
        finally:
            del self._answers[number]

    # -- what comes -----------------------------------------------------------------------------

    def hear(self, message: say.ToNode) -> None:
        """Process a message of the connected warden."""
        match message:
            case say.Ended(key=key, ending=ending) if key in self._held:
                # It ended after its warden was met and before anybody asked: `resume` tells.
                self._held[key] = replace(self._held[key], ending=ending)
            case say.Reported(key=key, report=report) if key in self._held:
                self._held[key] = replace(self._held[key], report=report)
            case say.Ended(key=key, ending=ending):
                self._end_attempt(key, ending)
            case say.Reported(key=key, report=report) if key in self._known:
                self._known[key].events.reported(key, report)
            case say.Data(number=number) | say.Expired(number=number):
                answer = self._answers.get(number)
                if answer is not None and not answer.done():
                    answer.set_result(message)
            case say.Beaten() | say.Held() | say.Met() | say.Reported():
                pass

    def _end_attempt(self, key: AttemptKey, ending: Ending) -> None:
        attempt = self._known.pop(key, None)
        if attempt is not None:
            self._one_ended.set()
            attempt.events.ended(key, ending)

    def _lose(self, order: Order, reason: str) -> None:
        now = self._now()
        ending = Ending(outcome=Outcome.LOST, started_at=now, finished_at=now, reason=reason)
        self._end_attempt(order.key, ending)

    # -- what goes ------------------------------------------------------------------------------

    def _say(self, message: say.ToWarden) -> None:
        self._add(message)
        self._plan_flush()

    def _add(self, message: say.ToWarden) -> None:
        # Encoded here, so that a message that cannot be fails alone, and not what is sent with it.
        self._said.append(_Said(message, say.encode(message)))

    def _plan_flush(self) -> None:
        if not self._is_flush_planned:
            self._is_flush_planned = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_planned = False
        connection = self._connection
        if connection is None or connection.is_full or self._is_parting:
            return
        encoded = [each.encoded for each in self._said]
        if self._newly_allowed:
            # First, for a launch is refused whose group has no time.
            encoded.insert(0, say.encode(say.Allow(self._newly_allowed)))
        self._said, self._newly_allowed = [], {}
        connection.write_encoded(encoded)

    def may_write(self) -> None:
        """Continue to send after the connection was full."""
        self._plan_flush()

    # -- there is a warden ----------------------------------------------------------------------

    async def _listen(self, connection: ToTheWarden) -> None:
        """Return when the warden is gone; kill it if it does not answer."""
        while not connection.gone.is_set():
            connection.silent_count += 1
            if connection.silent_count > BEATS_MISSED:
                # Turns are counted, not time: a node that stood still has not listened either.
                log.error("warden hangs", extra={"pid": connection.pid})
                self.why_away = "the warden does not answer and is replaced"
                await self._processes.kill(connection)
                break
            self._say(say.Beat())
            with suppress(TimeoutError):
                async with asyncio.timeout(self._beat_s):
                    await connection.gone.wait()
        self._lost(connection)

    def _lost(self, connection: ToTheWarden) -> None:
        if self._connection is not connection:
            return
        self._connection, self._is_parting = None, False
        if not self._is_closed:
            self.why_away = "the warden has ended and is replaced"
            log.error("warden gone", extra={"pid": connection.pid})
        self._said = [each for each in self._said if isinstance(each.message, LASTING)]
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ConnectionError("the warden went away"))

    # -- there is none --------------------------------------------------------------------------

    async def _find(self) -> None:
        """Connect to a warden of this version; replace one with other settings unless in use."""
        while True:
            connection = await self._processes.open(self)
            if connection is None:
                self.why_away = self._processes.start() or self.why_away
                await asyncio.sleep(LOOK_S)
            elif not await self._meet(connection):
                if connection.gone.is_set():  # It was about to end.
                    await asyncio.sleep(LOOK_S)
                    continue
                self.why_away = "the warden does not answer and is replaced"
                await self._processes.kill(connection)
            elif self._is_understood(connection):
                return self._take(connection)
            else:
                log.info("warden replaced", extra={"pid": connection.pid})
                connection.write([say.Retire(PART_GRACE)])
                await self._processes.let_end(connection, PART_GRACE)

    async def _meet(self, connection: ToTheWarden) -> bool:
        """Exchange greetings and receive the held attempts; return True if it answered."""
        connection.write([say.Hello(say.VERSION)])
        with suppress(TimeoutError):
            async with asyncio.timeout(max(1.0, BEATS_MISSED * self._beat_s)):
                await connection.met.wait()
        return connection.met.is_set() and not connection.gone.is_set()

    def _is_understood(self, connection: ToTheWarden) -> bool:
        if connection.answer.version != say.VERSION:
            return False
        is_in_use = any(each.ending is None for each in connection.held)
        self._is_outdated = connection.answer.made_of != self._made_of
        return is_in_use or not self._is_outdated

    def _take(self, connection: ToTheWarden) -> None:
        """Continue with a new warden."""
        log.info("warden met", extra={"pid": connection.pid, "held": len(connection.held)})
        self.why_away, self._connection = None, connection
        held = {each.order.key: each for each in connection.held}
        connection.held.clear()
        if not self._has_met:
            self._has_met, self._held = True, held
        else:
            self._compare(held)
        self._newly_allowed = dict(self._allowed)
        if self._on_death is not None:
            self._add(self._on_death)
        self._flush()

    def _compare(self, held: Mapping[AttemptKey, say.Held]) -> None:
        """Report attempts that ended, and end as lost those that the new warden does not hold."""
        unsent = {
            said.message.order.key for said in self._said if isinstance(said.message, say.Launch)
        }
        for key, (order, _) in list(self._known.items()):
            there = held.get(key)
            if there is None and key not in unsent:
                self._lose(order, "its warden ended")
            elif there is not None and there.ending is not None:
                self._end_attempt(key, there.ending)
        for key in held.keys() - self._unforgotten:
            self._add(say.Forget(key))  # The warden before it has not heard it.
