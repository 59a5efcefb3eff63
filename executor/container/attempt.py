"""One attempt as a container: creation, start, output, end, report, removal.

The steps of its end:

1. The container ends by itself; or it gets the stop signal of its image (TERM), and KILL after the
   grace. KILL is sent through the engine, and also directly to the container's first process if
   that is visible (`rota.executor.container.init_process`).
2. Its output is read to the end; if the engine hangs, only until `DRAIN_S` after the last part.
3. The engine reports how it ended. If the engine does not answer, the attempt is reported only if
   its first process is known to have ended; otherwise the request is repeated. An attempt whose end
   is not certain is never reported.
4. `ContainerEnvironment.report` is called; then the container is removed.

Output that is lost with a broken connection is read from the engine's copy, from the first byte
that is missing.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from rota.core.model.attempt import AttemptKey, Ending, Order, Outcome, Report, Usage
from rota.core.model.ids import NodeId
from rota.core.model.permitted_binds import BY_POLICY
from rota.core.timing.instants import Duration, Instant, from_datetime
from rota.executor.attempt_settings import AttemptSettings
from rota.executor.container.creation import (
    LOG_DRIVER,
    Json,
    UnusableOrderError,
    creation,
    labels_of,
)
from rota.executor.container.engine import (
    CONFLICT,
    NOT_FOUND,
    Container,
    Engine,
    EngineError,
    EngineRefused,
    EngineSilent,
    State,
)
from rota.executor.container.exit_reasons import not_there, reason_of, signal_of, unenforced
from rota.executor.container.init_process import InitProcess
from rota.executor.container.shared_folder import SharedFolder
from rota.executor.kernel.cgroups import Counted
from rota.executor.launch.binds import ProtectedPaths
from rota.executor.launch.secret_files import SecretFiles
from rota.executor.masking import forms_of
from rota.executor.output import Capture, OutputFiles
from rota.executor.secret_values import SecretUnavailable, SecretValues
from rota.executor.stop_ladder import StopLadder

DRAIN_S = 2.0  # The longest wait for the next part of an ended container's output.
RETRY_S = 1.0  # The time between two equal requests to an engine that does not answer.
STATE_WAIT_S = 60.0  # The longest wait for a container's final state, as in an engine's restart.
FIRST_PAUSE_S = 0.02  # A container that has closed its streams has nearly always ended.
_REMOVALS_MAX = 5
_STOPPED_EARLY = "stopped before it started"

T = TypeVar("T")

log = logging.getLogger(__name__)


class ContainerEnvironment(NamedTuple):
    """The parts that all attempts of an executor share.

    Attributes:
        engine: The engine of the containers.
        files: The files of their outputs.
        folders: The parent of the folders that are shared with containers.
        now: The clock for the times in endings.
        node_id: Passed to the containers.
        store_id: Marks the containers as this store's.
        settings: The node's settings for attempts.
        kept: Paths that are never bound.
        secret_files: The files of secrets.
        begin: Starts a coroutine that runs concurrently.
        report: Called with the end of each attempt, once.
        reported: Called with the reports of attempts.
    """

    engine: Engine
    files: OutputFiles
    folders: Path
    now: Callable[[], Instant]
    node_id: NodeId
    store_id: str
    settings: AttemptSettings
    kept: ProtectedPaths
    secret_files: SecretFiles
    begin: Callable[[Coroutine[None, None, None]], None]
    report: Callable[[AttemptKey, Ending], None]
    reported: Callable[[AttemptKey, Report], None]


class ContainerAttempt:
    """An attempt in a container; either `run` or `resume` is called, once.

    Attributes:
        order: The order of the attempt.
        capture: The output of the attempt.
        folder: The folder of its reports; None if the engine cannot access this machine's files.
    """

    def __init__(
        self, environment: ContainerEnvironment, order: Order, secrets: SecretValues
    ) -> None:
        self.order = order
        self._secrets = secrets
        self._secret_folder: Path | None = None
        self._writable = asyncio.Event()
        self.capture: Capture = environment.files.capture(
            order.key, writable=self._writable.set, masks=forms_of(secrets.all)
        )
        self._environment = environment
        self._engine = environment.engine
        self._loop = asyncio.get_running_loop()
        self.folder: SharedFolder | None = None
        if self._engine.is_local:
            self.folder = SharedFolder(environment.folders / order.key.file_name)
        self._id = ""  # The id of the container; empty until it is created.
        self._init: InitProcess | None = None
        self._stop_signal = "SIGTERM"
        self._is_over = False
        self._ladder = StopLadder(
            self._loop,
            order.work,
            has_ended=self._has_ended,
            terminate=self._terminate,
            kill=self._kill,
            stop_signal="the signal to stop",
        )
        self._pulling: asyncio.Timeout | None = None
        self._draining: asyncio.Timeout | None = None
        self._started_at = Instant(0)
        self._finished_at: Instant | None = None
        self._counted = Counted(Duration(0), 0, 0)
        self._unenforced: tuple[str, ...] = ()

    def stop(self, grace: Duration) -> None:
        """Stop the attempt; a grace already running can only become shorter."""
        self._ladder.stop(grace)
        if self._pulling is not None and not self._pulling.expired():
            self._pulling.reschedule(self._loop.time())

    async def run(self) -> None:
        """Create the container, follow it to its end, report the end and remove the container."""
        await self._report(self._run())

    async def resume(self) -> None:
        """Find a container that was created before a restart, and continue as in `run`."""
        await self._report(self._resume())

    async def _report(self, life: Coroutine[None, None, Ending]) -> None:
        try:
            ending = await life
        except Exception as error:  # A bug, here or in aiodocker; other attempts continue.
            log.exception("container given up", extra={"attempt": str(self.order.key)})
            if self._id:
                await self._repeat_until_answered(self._remove_now)
            ending = self._never_ran(f"the container executor has a bug: {error!r}")
        finally:
            self._release()
        self._environment.secret_files.remove(self.order.key)
        if self.capture.is_busy:
            await self._writable.wait()
        self._writable.clear()
        self.capture.flush()
        if self.capture.is_busy:
            await self._writable.wait()
        self.capture.finish()
        self._environment.report(self.order.key, await self._with_last_report(ending))
        await self._remove()

    async def _with_last_report(self, ending: Ending) -> Ending:
        if self.folder is None:
            return ending
        report, result, complaint = await self.folder.collect()
        if report is not None:
            self._environment.reported(self.order.key, report)
        return replace(ending, result=result, reason=_joined(ending.reason, complaint))

    async def _run(self) -> Ending:
        work = self.order.work
        try:
            self._id = await self._create()
            async with self._engine.attached(self._id, has_input=bool(work.stdin)) as streams:
                if self._ladder.outcome is not None:
                    return self._never_ran(_STOPPED_EARLY)
                await self._start()
                async with asyncio.TaskGroup() as group:
                    feeding = group.create_task(streams.feed(_encoded(work.stdin)))
                    await self._read_properties()
                    await self._follow(streams.read())
                    feeding.cancel()  # The program has ended without reading all of its input.
        except (UnusableOrderError, EngineError) as error:
            return self._never_ran(str(error))
        except SecretUnavailable as error:
            return self._never_ran(str(error), Outcome.LOST)
        except _StoppedEarly:
            return self._never_ran(_STOPPED_EARLY)
        return await self._ending_of_container()

    async def _resume(self) -> Ending:
        found = await self._repeat_until_answered(self._find)
        if found is None:
            return self._never_ran("its container does not exist any more", Outcome.LOST)
        self._id = found
        if self.order.work.has_secret_values:
            await self._repeat_until_answered(self._remove_now)
            return self._never_ran("the secrets to mask ended with its warden", Outcome.LOST)
        container = await self._repeat_until_answered(self._inspect)
        if container is None or container.state.status == "created":
            await self._repeat_until_answered(self._remove_now)
            return self._never_ran("its container was never started", Outcome.LOST)
        if not container.state.running:
            finished_at = _instant_of(container.state.finished_at)
            self._finished_at = min(finished_at, self._environment.now())
            self._ladder.withdraw()  # A request to stop the attempt came too late.
        self._started(_instant_of(container.state.started_at))
        await self._read_properties()
        await self._follow(self._engine.logs(self._id))
        return await self._ending_of_container()

    # -- start ----------------------------------------------------------------------------------

    async def _create(self) -> str:
        work = self.order.work
        if work.image is not None and work.image.pull == "always":
            await self._pull(work.image.name, if_missing=False)
        if self.folder is not None:
            await self.folder.make(self.order)
        self._make_secrets()
        try:
            return await self._create_container()
        except EngineRefused as error:
            if error.status != NOT_FOUND or work.image is None:
                raise
            if work.image.pull != "missing":
                raise EngineRefused(not_there(work.image), status=NOT_FOUND) from error
        await self._pull(work.image.name, if_missing=True)
        return await self._create_container()

    def _make_secrets(self) -> None:
        """Make the files of the secrets.

        Raises:
            SecretUnavailable: The files cannot be made.
        """
        if self._secrets.in_files:
            files, key = self._environment.secret_files, self.order.key
            self._secret_folder = files.make(key, self._secrets.in_files, is_shared=True)

    async def _create_container(self) -> str:
        try:
            return await self._engine.create(await self._creation())
        except EngineRefused as error:
            # The engine has other files than this process, which is in a container itself.
            if self.folder is None or str(self.folder.path) not in str(error):
                raise
        await self.folder.remove()
        self.folder = None
        return await self._engine.create(await self._creation())

    async def _creation(self) -> dict[str, Json]:
        return creation(
            self.order,
            node_id=self._environment.node_id,
            store_id=self._environment.store_id,
            folder=None if self.folder is None else self.folder.path,
            secrets=self._secret_folder,
            values=self._secrets,
            kept=self._environment.kept,
            settings=self._environment.settings,
            has_log_driver=LOG_DRIVER in await self._engine.log_drivers(),
        )

    async def _pull(self, image: str, *, if_missing: bool) -> None:
        try:
            async with asyncio.timeout(None) as self._pulling:
                await self._engine.pull(image, if_missing=if_missing)
        except TimeoutError as error:
            raise _StoppedEarly from error
        finally:
            self._pulling = None

    async def _start(self) -> None:
        try:
            await self._engine.start(self._id)
        except EngineSilent:
            # The container may run, or may still be started, so it is removed before the report.
            await self._repeat_until_answered(self._remove_now)
            raise
        self._started(self._environment.now())

    def _started(self, at: Instant) -> None:
        self._started_at = at
        self._ladder.start(elapsed=Duration(self._environment.now() - at))

    async def _read_properties(self) -> None:
        """Read the properties of a started container from the engine and the kernel."""
        try:
            container = await self._engine.inspect(self._id)
        except EngineError:
            return  # The attempt can continue without these properties.
        self._stop_signal = str(container.config.stop_signal or self._stop_signal)
        self._unenforced = unenforced(self.order.work.limits, container.host_config)
        if not container.state.running:
            return
        self._init = InitProcess.find(container.state.pid, self._id)
        if self._init is not None:
            self._loop.add_reader(self._init.pidfd, self._init_ended)
            if self._ladder.was_killed:
                self._init.kill()

    # -- output ---------------------------------------------------------------------------------

    async def _follow(self, parts: AsyncGenerator[bytes]) -> None:
        """Take *parts*, without the bytes already read, to their end or the container's."""
        passed = 0
        here = self.capture.received
        with suppress(TimeoutError, EngineError):  # The state is requested afterwards in any case.
            async with aclosing(parts), asyncio.timeout(None) as self._draining:
                self._limit_drain_if_ended()
                async for part in parts:
                    fresh = part[max(0, here - passed) :]
                    passed += len(part)
                    if fresh:
                        await self._take(fresh)
                    self._limit_drain_if_ended()
        self._draining = None

    async def _take(self, part: bytes) -> None:
        self._writable.clear()
        self.capture.take(part)
        if self.capture.is_busy:
            await self._writable.wait()

    def _init_ended(self) -> None:
        assert self._init is not None, f"{self.order.key} has no first process that could end"
        self._loop.remove_reader(self._init.pidfd)
        self._counted = self._init.counted()
        self._finished_at = self._environment.now()
        self._limit_drain_if_ended()

    def _limit_drain_if_ended(self) -> None:
        draining = self._draining
        if self._finished_at is not None and draining is not None and not draining.expired():
            draining.reschedule(self._loop.time() + DRAIN_S)

    def _has_ended(self) -> bool:
        """Return True if the container's end is handled already, or its first process has ended."""
        return self._finished_at is not None or (self._init is not None and self._init.has_ended())

    # -- stop -----------------------------------------------------------------------------------

    def _terminate(self) -> None:
        if self._ladder.grace > 0:  # Otherwise KILL follows at once, and may overtake the signal.
            self._environment.begin(self._send_stop_signal())

    async def _send_stop_signal(self) -> None:
        with suppress(EngineError):  # KILL follows in any case.
            await self._engine.kill(self._id, self._stop_signal)

    def _kill(self) -> bool:
        if self._init is not None:
            self._init.kill()
        # And by the engine, which may have more rights and can kill a paused container.
        self._environment.begin(self._kill_by_engine())
        return True

    async def _kill_by_engine(self) -> None:
        while not self._is_over:
            try:
                await self._engine.kill(self._id, "SIGKILL")
            except EngineError as error:
                if isinstance(error, EngineRefused) and error.status in (NOT_FOUND, CONFLICT):
                    return  # The container does not run.
                await asyncio.sleep(RETRY_S)
            else:
                return

    def _release(self) -> None:
        self._is_over = True
        self._ladder.end()
        if self._init is not None:
            self._loop.remove_reader(self._init.pidfd)
            self._init.close()

    # -- state at the engine --------------------------------------------------------------------

    async def _last_state(self) -> State | None:
        """Return the final state of the container; None if it has ended and there is no state."""
        pause_s, give_up_at = FIRST_PAUSE_S, 0.0
        while True:
            try:
                container = await self._inspect()
            except EngineError:
                give_up_at = give_up_at or self._loop.time() + STATE_WAIT_S
                is_enough = self._ladder.outcome is not None or self._loop.time() >= give_up_at
                if self._has_ended() and is_enough:
                    return None
            else:
                if container is None or not container.state.running:
                    return None if container is None else container.state
                # The container closed its streams or is about to end, or the connection broke.
                await self._follow(self._engine.logs(self._id))
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_S)

    async def _repeat_until_answered(self, call: Callable[[], Coroutine[None, None, T]]) -> T:
        while True:
            try:
                return await call()
            except EngineError:
                await asyncio.sleep(RETRY_S)

    async def _find(self) -> str | None:
        found = await self._engine.find(labels_of(self.order, self._environment.store_id))
        return found[0].id if found else None

    async def _inspect(self) -> Container | None:
        try:
            return await self._engine.inspect(self._id)
        except EngineRefused as error:
            if error.status != NOT_FOUND:
                raise
            return None

    async def _remove_now(self) -> None:
        await self._engine.remove(self._id)

    async def _remove(self) -> None:
        """Remove folder and container; what cannot be removed is removed after a restart."""
        if self.folder is not None:
            await self.folder.remove()
        for _ in range(_REMOVALS_MAX if self._id else 0):
            try:
                await self._remove_now()
            except EngineError:
                await asyncio.sleep(RETRY_S)
            else:
                return

    # -- ending ---------------------------------------------------------------------------------

    def _never_ran(self, reason: str, outcome: Outcome = Outcome.FAILED) -> Ending:
        now = self._environment.now()
        if outcome is Outcome.FAILED and self._ladder.outcome is not None:
            outcome = self._ladder.outcome
        return Ending(
            outcome=outcome,
            started_at=now,
            finished_at=now,
            reason=reason,
            is_permanent=reason.startswith(BY_POLICY),
        )

    async def _ending_of_container(self) -> Ending:
        state = await self._last_state()
        if self._init is not None and self._finished_at is None:
            self._init_ended()  # The loop has not processed the end yet.
        finished_at = self._finished_at or self._environment.now()
        by_itself = Outcome.SUCCEEDED if state and state.exit_code == 0 else Outcome.FAILED
        outcome = self._ladder.outcome or by_itself
        cut = f"its output is kept only in part: {self.capture.cut}" if self.capture.cut else ""
        return Ending(
            outcome=outcome,
            started_at=self._started_at,
            finished_at=max(finished_at, self._started_at),
            exit_code=state.exit_code if state else -1,
            signal=signal_of(state.exit_code) if state else 9 if self._ladder.was_killed else 0,
            reason=_joined(self._reason(state), cut),
            output=self.capture.tail,
            output_bytes=self.capture.byte_count,
            usage=self._usage(),
            is_out_of_memory=outcome is Outcome.FAILED and self._lacked_memory(state),
            unenforced=self._unenforced,
        )

    def _usage(self) -> Usage | None:
        counted = self._counted
        return Usage(cpu=counted.cpu, memory_peak=counted.memory_peak) if counted.cpu else None

    def _lacked_memory(self, state: State | None) -> bool:
        # The kernel's count is needed too: Podman's state covers only the first process.
        return self._counted.oom_kills > 0 or (state is not None and state.oom_killed)

    def _reason(self, state: State | None) -> str:
        return self._ladder.reason or self._reason_of_exit(state)

    def _reason_of_exit(self, state: State | None) -> str:
        if state is None:
            return "its container has ended, and the engine does not report how"
        if state.exit_code and self._lacked_memory(state):
            limit = self.order.work.limits.memory
            memory = f"out of memory: it reached its limit of {limit} bytes"
            return f"{memory if limit else 'out of memory'}; {reason_of(state.exit_code)}"
        return reason_of(state.exit_code)


class _StoppedEarly(Exception):
    """The attempt was stopped before its container was started."""


def _joined(*reasons: str) -> str:
    return "; ".join(reason for reason in reasons if reason)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _instant_of(stamp: str) -> Instant:
    # The engine writes nanoseconds, which `parse_instant` does not take.
    return from_datetime(datetime.fromisoformat(stamp))
