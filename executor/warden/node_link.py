"""The node's end of the socket: finds or starts the warden, and offers its executors.

Several wardens may follow one another. When a warden ends, its attempts end with it; a warden that
does not answer is killed, with the same effect. In both cases a new warden is started, and attempts
that it does not hold end as lost. Until then, requests of the node wait; slots limit their number.

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
from rota.executor.secret_values import SecretValues
from rota.executor.warden import messages
from rota.executor.warden.connections import ToTheWarden
from rota.executor.warden.hosted_executors import digest_of, environment_of_warden, installed
from rota.executor.warden.paths import LOG
from rota.executor.warden.proxies import AttemptEvents, Right, RightOf, WardenExecutor
from rota.executor.warden.warden_processes import LOOK_S, Processes

log = logging.getLogger(__name__)

START_S = 20.0
"""The time limit of a node's connection to a warden."""
BACK_OFF_S = (0.0, 0.1, 0.5, 2.0, 5.0)
"""The pauses before the tries to replace the warden; the last one is repeated."""
STEADY_S = 10.0
"""The time of service after which the pauses start again from the first."""
BEATS_PER_LEASE = 10
BEATS_MISSED = 5
"""The number of unanswered heartbeats, half an attempt lease, after which the warden counts as
hung."""
END_S = 10.0
"""The time limit of the end of a warden's processes, after a kill or a request."""
KILLED_WITHIN_S = 30.0
"""The time limit of the end of killed processes, which may hang in the kernel, as on a lost network
disk."""
PART_GRACE = Duration(5 * SECOND)
"""The grace of attempts under a warden of another version."""
REPEATED = (messages.Launch, messages.Stop, messages.Forget)
"""The types of messages that, if unsent, are sent to the next warden."""


class WardenUnavailable(RotaError):
    """There is no warden, and none can be started."""

    code = "warden_unavailable"


class _Attempt(NamedTuple):
    """An attempt that was launched or resumed and has not ended."""

    order: Order
    events: AttemptEvents


class _Unsent(NamedTuple):
    """A message that is not sent yet, and its bytes."""

    message: messages.ToWarden
    encoded: bytes


class WardenLink:
    """The link of a node to its warden. Constructed on the node's loop.

    Args:
        directory: The node's data directory.
        node_id: Passed to the tasks.
        store_id: The id of the data directory, by which leftovers are found.
        lease: The time that attempts may run without contact with their node.
        now: The clock for the times in endings.
        environ: The node's environment; a started warden gets a part of it.
        settings: The node's settings for attempts.

    Attributes:
        why_away: The reason why there is no warden at present; None while there is one.
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
        settings: AttemptSettings = USUAL,
    ) -> None:
        self.why_away: str | None = "the warden has not been found yet"
        self._directory = directory
        self._beat_s = lease / SECOND / BEATS_PER_LEASE
        self._now = now
        # Computed here and passed on: the warden's interpreter adds to its environment (PEP 538).
        environ = environment_of_warden(environ)
        self._made_of = digest_of(node_id, environ, settings)
        self._processes = Processes(
            directory,
            (
                *("--node-id", node_id, "--store-id", store_id),
                *("--made-of", self._made_of, "--settings", settings_text(settings)),
            ),
            environ,
        )
        self._loop = asyncio.get_running_loop()
        self._connection: ToTheWarden | None = None
        self._held: dict[AttemptKey, messages.Held] = {}
        """The attempts that the first warden held at its greeting and that are not resumed yet."""
        self._known: dict[AttemptKey, _Attempt] = {}
        """The attempts that were launched or resumed and have not ended."""
        self._unforgotten: set[AttemptKey] = set()
        self._allowed: dict[str, Instant] = {}
        self._newly_allowed: dict[str, Instant] = {}
        self._on_death: messages.OnDeath | None = None
        self._unsent: list[_Unsent] = []
        self._is_flush_planned = False
        self._answers: dict[int, asyncio.Future[messages.Data | messages.Expired]] = {}
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
        """The orders of attempts that the first warden held and that are not resumed yet.

        Their ends are reported only after `resume`.
        """
        return [each.order for each in self._held.values()]

    def allow(self, until: Mapping[str, Instant]) -> None:
        """Extend the time of groups; groups that are not named are not extended."""
        moved = {group: at for group, at in until.items() if at != self._allowed.get(group)}
        self._allowed = dict(until)
        if moved:
            self._newly_allowed |= moved
            self._plan_flush()

    def set_on_death(self, *requests: messages.OnDeathRequest) -> None:
        """Set the requests to be sent after the end of this process, replacing earlier ones."""
        on_death = messages.OnDeath(requests)
        if on_death != self._on_death:
            self._on_death = on_death
            self._send(on_death)

    def forget(self, key: AttemptKey) -> None:
        """Report to the warden that the outcome of an attempt is recorded."""
        self._unforgotten.discard(key)
        self._send(messages.Forget(key))
        if self._is_outdated and not self._unforgotten and not self._held:
            log.info("warden replaced")
            self._send(messages.Retire(Duration(0)))
            self._flush()
            self._is_parting = True

    async def connect(self) -> None:
        """Find the warden, or start one.

        Raises:
            WardenUnavailable: There is no warden after `START_S`; the message is the reason.
        """
        try:
            async with asyncio.timeout(START_S):
                await self._find()
        except TimeoutError as error:
            why = f"{self.why_away}; see {self._directory / LOG}"
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
        """End the warden with all its attempts, and wait until no process of it is left."""
        self._is_closed = True
        connection = self._connection
        if connection is not None:
            self._send(messages.Retire(grace))
            self._flush()
            await self._processes.let_end(connection, grace)

    # -- for the executors ----------------------------------------------------------------------

    def launch(
        self, order: Order, right: Right, events: AttemptEvents, secrets: SecretValues
    ) -> None:
        """Start an attempt with *secrets*."""
        assert order.key not in self._known, f"{order.key} is launched twice"
        self._known[order.key] = _Attempt(order, events)
        self._unforgotten.add(order.key)
        if right.until != self._allowed.get(right.group):
            self._allowed[right.group] = self._newly_allowed[right.group] = right.until
        self._send(messages.Launch(right.group, order, secrets))

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
        """Request that the warden stops an attempt.

        Args:
            key: The attempt; one that has ended is ignored.
            grace: The time between TERM and KILL; None for that of the task.
        """
        if key in self._known:
            self._send(messages.Stop(key, grace))

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
    ) -> messages.Data:
        """Return part of an output; while there is no warden, no output is kept.

        Raises:
            OSError: The output cannot be read.
        """
        number = next(self._numbers)
        request = messages.Read(number, executor, key, offset, limit, is_patient)
        answer = await self._ask(number, request)
        if not isinstance(answer, messages.Data):
            return messages.Data(number)
        if answer.error:
            raise OSError(answer.error)
        return answer

    async def expire(self, executor: str, before: Instant) -> int:
        """Remove old outputs, and return the number of removed ones."""
        number = next(self._numbers)
        answer = await self._ask(number, messages.Expire(number, executor, before))
        return answer.count if isinstance(answer, messages.Expired) else 0

    async def _ask(
        self, number: int, request: messages.Read | messages.Expire
    ) -> messages.Data | messages.Expired | None:
        """Return the answer; None if the warden ended before it answered."""
        if self._connection is None:
            return None
        answer: asyncio.Future[messages.Data | messages.Expired] = self._loop.create_future()
        self._answers[number] = answer
        try:
            self._send(request)
            return await answer
        except ConnectionError:
            return None
        finally:
            del self._answers[number]

    # -- messages from the warden ---------------------------------------------------------------

    def receive(self, message: messages.ToNode) -> None:
        """Process a message of the connected warden."""
        match message:
            case messages.Ended(key=key, ending=ending) if key in self._held:
                # The attempt ended after the greeting and is not resumed yet: `resume` reports it.
                self._held[key] = replace(self._held[key], ending=ending)
            case messages.Reported(key=key, report=report) if key in self._held:
                self._held[key] = replace(self._held[key], report=report)
            case messages.Ended(key=key, ending=ending):
                self._end_attempt(key, ending)
            case messages.Reported(key=key, report=report) if key in self._known:
                self._known[key].events.reported(key, report)
            case messages.Data(number=number) | messages.Expired(number=number):
                answer = self._answers.get(number)
                if answer is not None and not answer.done():
                    answer.set_result(message)
            case messages.Beaten() | messages.Held() | messages.Met() | messages.Reported():
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

    # -- messages to the warden -----------------------------------------------------------------

    def _send(self, message: messages.ToWarden) -> None:
        self._add(message)
        self._plan_flush()

    def _add(self, message: messages.ToWarden) -> None:
        # Encoded here, so that an error in the encoding affects only this message.
        self._unsent.append(_Unsent(message, messages.encode(message)))

    def _plan_flush(self) -> None:
        if not self._is_flush_planned:
            self._is_flush_planned = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_planned = False
        connection = self._connection
        if connection is None or connection.is_full or self._is_parting:
            return
        encoded = [each.encoded for each in self._unsent]
        if self._newly_allowed:
            # First, because a launch is refused if its group has no time.
            encoded.insert(0, messages.encode(messages.Allow(self._newly_allowed)))
        self._unsent, self._newly_allowed = [], {}
        connection.write_encoded(encoded)

    def may_write(self) -> None:
        """Continue to send after the connection was full."""
        self._plan_flush()

    # -- a connected warden ---------------------------------------------------------------------

    async def _listen(self, connection: ToTheWarden) -> None:
        """Return after the end of the connection; kill the warden if it does not answer."""
        while not connection.gone.is_set():
            connection.silent_count += 1
            if connection.silent_count > BEATS_MISSED:
                # Heartbeats are counted instead of time: a blocked node cannot receive answers.
                log.error("warden hangs", extra={"pid": connection.pid})
                self.why_away = "the warden does not answer and is replaced"
                await self._processes.kill(connection)
                break
            self._send(messages.Beat())
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
        self._unsent = [each for each in self._unsent if isinstance(each.message, REPEATED)]
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ConnectionError("the warden has ended"))

    # -- no warden ------------------------------------------------------------------------------

    async def _find(self) -> None:
        """Connect to a warden of this version; start or replace one if necessary.

        A warden of another digest is replaced here only if it has no running attempts.
        """
        while True:
            connection = await self._processes.open(self)
            if connection is None:
                self.why_away = self._processes.start() or self.why_away
                await asyncio.sleep(LOOK_S)
            elif not await self._greet(connection):
                if connection.gone.is_set():  # The warden was about to end.
                    await asyncio.sleep(LOOK_S)
                    continue
                self.why_away = "the warden does not answer and is replaced"
                await self._processes.kill(connection)
            elif self._is_usable(connection):
                return self._use(connection)
            else:
                log.info("warden replaced", extra={"pid": connection.pid})
                connection.write([messages.Retire(PART_GRACE)])
                await self._processes.let_end(connection, PART_GRACE)

    async def _greet(self, connection: ToTheWarden) -> bool:
        """Exchange greetings and receive the held attempts; return True if the warden answered."""
        connection.write([messages.Hello(messages.VERSION)])
        try:
            async with asyncio.timeout(max(1.0, BEATS_MISSED * self._beat_s)):
                await connection.met.wait()
        except TimeoutError:
            pass
        except BaseException:  # The node stops.
            connection.close()
            raise
        return connection.met.is_set() and not connection.gone.is_set()

    def _is_usable(self, connection: ToTheWarden) -> bool:
        if connection.answer.version != messages.VERSION:
            return False
        is_in_use = any(each.ending is None for each in connection.held)
        self._is_outdated = connection.answer.made_of != self._made_of
        return is_in_use or not self._is_outdated

    def _use(self, connection: ToTheWarden) -> None:
        """Continue with a new warden."""
        log.info("warden connected", extra={"pid": connection.pid, "held": len(connection.held)})
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

    def _compare(self, held: Mapping[AttemptKey, messages.Held]) -> None:
        """Report attempts that have ended, and those as lost that the new warden does not hold."""
        unsent = {
            each.message.order.key
            for each in self._unsent
            if isinstance(each.message, messages.Launch)
        }
        for key, (order, _) in list(self._known.items()):
            there = held.get(key)
            if there is None and key not in unsent:
                self._lose(order, "its warden ended")
            elif there is not None and there.ending is not None:
                self._end_attempt(key, there.ending)
        for key in held.keys() - self._unforgotten:
            self._add(messages.Forget(key))  # The previous warden did not receive this message.
