"""Attempts as containers of the Docker-compatible engine that ``DOCKER_HOST`` names.

Each running attempt is one asyncio task (`rota.executor.container.attempt`), which reads its output
from a connection; a second task serves its input, or its stop.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path

from rota.core.model.attempt import AttemptKey, Ending, Order, Report
from rota.core.model.ids import NodeId
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.executor.attempt_settings import USUAL, AttemptSettings
from rota.executor.container.attempt import ContainerAttempt, ContainerEnvironment
from rota.executor.container.engine import CALL_S, Engine, EngineError, host_in
from rota.executor.container.leftovers import remove_leftovers
from rota.executor.container.shared_folder import SharedFolder, new_reports
from rota.executor.executor import CLOSE_GRACE, Ended, Output, Reported
from rota.executor.launch.binds import kept_from_binds
from rota.executor.launch.secret_files import SecretFiles
from rota.executor.output import OutputFiles
from rota.executor.secret_values import NO_SECRETS, SecretValues

OUTPUT_BYTES_MAX = 10 << 20  # The same as for processes.
OUTPUT_BYTES_TOTAL_MAX = 1 << 30

_EXPIRED_PER_CALL = 1_000
_KILLED_WITHIN_S = 30.0  # Kills that the engine does not confirm are left to the next warden.
_SWEEP_AGAIN_S = 5.0
LISTEN_S = 1.0

log = logging.getLogger(__name__)


class ContainerExecutor:
    """Runs attempts as containers; see `rota.executor.executor.Executor` for the seam.

    Constructed on the loop that it uses. All `resume` calls come before the next turn of that loop,
    in which all other containers of *store_id* are removed.

    An end is reported only once it is confirmed, however long that takes: the container may still
    run while the engine hangs.

    Args:
        directory: The node's data directory; this executor uses its folder ``containers``.
        node_id: Passed to the containers.
        store_id: Marks the containers as this store's.
        ended: Called with every ending.
        reported: Called with reports of attempts.
        now: The clock for the times in endings.
        environ: The node's environment, which may name the engine in ``DOCKER_HOST``.
        settings: The node's settings for attempts.
        call_s: The time limit of the engine's responses, in seconds.
        output_bytes_max: The number of bytes of one output that are kept in its file.
        output_bytes_total_max: The number of bytes of all outputs above which `expire` removes
            some.
    """

    def __init__(
        self,
        directory: Path,
        *,
        node_id: NodeId,
        store_id: str,
        ended: Ended,
        reported: Reported | None = None,
        now: Callable[[], Instant],
        environ: Mapping[str, str] = os.environ,
        settings: AttemptSettings = USUAL,
        call_s: float = CALL_S,
        output_bytes_max: int = OUTPUT_BYTES_MAX,
        output_bytes_total_max: int = OUTPUT_BYTES_TOTAL_MAX,
    ) -> None:
        self._engine = Engine(host_in(environ), call_s=call_s)
        self._files = OutputFiles(
            directory / "containers" / "output",
            limit=output_bytes_max,
            limit_total=output_bytes_total_max,
            now=now,
        )
        self._store_id = store_id
        self._ended = ended
        self._reported = reported
        self._folders = directory / "containers" / "shared"
        self._folders.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._attempts: dict[AttemptKey, ContainerAttempt] = {}
        self._is_closed = False
        self._idle = asyncio.Event()
        # Not bounded: each attempt adds at most three entries, and slots limit attempts.
        self._begun: asyncio.Queue[Coroutine[None, None, None] | None] = asyncio.Queue()
        self._used = asyncio.Event()
        self._environment = ContainerEnvironment(
            engine=self._engine,
            files=self._files,
            folders=self._folders,
            now=now,
            node_id=node_id,
            store_id=store_id,
            settings=settings,
            kept=kept_from_binds(directory, environ, settings.private_files),
            secret_files=SecretFiles(store_id, "container"),
            begin=self._begun.put_nowait,
            report=self._report,
            reported=self._pass_on,
        )
        # The only asyncio task outside a group: the seam has no `run` that could have a group.
        self._serving = asyncio.get_running_loop().create_task(self._serve())
        self._serving.add_done_callback(_raise_bug)

    def launch(self, order: Order, secrets: SecretValues = NO_SECRETS) -> None:
        """Start an attempt: pull its image if required, create its container and start it."""
        self._add(order, secrets, is_resumed=False)

    def resume(self, order: Order) -> None:
        """Find the attempt's container by its labels, and read its output from the start."""
        self._add(order, NO_SECRETS, is_resumed=True)

    def stop(self, key: AttemptKey, *, grace: Duration | None = None) -> None:
        """Send TERM, or the stop signal of the image, and KILL after the grace."""
        attempt = self._attempts.get(key)
        if attempt is not None:
            attempt.stop(attempt.order.work.stop_grace if grace is None else grace)

    async def output(self, key: AttemptKey) -> Output | None:
        """Return the capture of a running attempt, or the kept file of an ended one."""
        attempt = self._attempts.get(key)
        return attempt.capture if attempt is not None else await self._files.find(key)

    async def expire(self, before: Instant) -> int:
        """Remove kept outputs written before *before*, and the oldest above the size limit.

        One call removes at most 1,000. The outputs of running attempts stay.

        Returns:
            The number of removed outputs.
        """
        return await self._files.expire(before, count_max=_EXPIRED_PER_CALL)

    async def close(self, grace: Duration = CLOSE_GRACE) -> None:
        """Stop every attempt and wait until all are reported and their containers removed.

        An attempt whose end is not confirmed within 30 s after the grace is not reported.
        """
        self._is_closed = True
        for attempt in list(self._attempts.values()):
            attempt.stop(min(grace, attempt.order.work.stop_grace))
        if self._attempts:
            with suppress(TimeoutError):
                async with asyncio.timeout(grace / SECOND + _KILLED_WITHIN_S):
                    await self._idle.wait()
        if self._attempts:
            self._serving.cancel()
        self._begun.put_nowait(None)
        with suppress(asyncio.CancelledError):
            await self._serving
        await self._engine.close()
        self._files.close()
        self._environment.secret_files.close()

    def _report(self, key: AttemptKey, ending: Ending) -> None:
        del self._attempts[key]
        if self._is_closed and not self._attempts:
            self._idle.set()
        self._ended(key, ending)

    def _pass_on(self, key: AttemptKey, report: Report) -> None:
        if self._reported is not None:
            self._reported(key, report)

    def _add(self, order: Order, secrets: SecretValues, *, is_resumed: bool) -> None:
        assert order.key not in self._attempts, f"{order.key} is launched twice"
        assert not self._is_closed, f"{order.key} is launched after close"
        attempt = self._attempts[order.key] = ContainerAttempt(self._environment, order, secrets)
        self._begun.put_nowait(attempt.resume() if is_resumed else attempt.run())
        self._used.set()

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            sweeping = group.create_task(self._sweep())
            listening = group.create_task(self._listen())
            while (work := await self._begun.get()) is not None:
                group.create_task(work)
            sweeping.cancel()
            listening.cancel()

    async def _sweep(self) -> None:
        """Remove containers that remain from before a restart, as soon as the engine answers."""
        folders = set(self._folders.iterdir())
        if not self._engine.may_be_reachable():
            await self._used.wait()  # Many machines have no engine and do not need one.
        while True:
            try:
                removed = await remove_leftovers(
                    self._engine, self._store_id, spared=self._attempts
                )
            except EngineError:
                await asyncio.sleep(_SWEEP_AGAIN_S)
                continue
            if removed:
                names = [str(key) for key in removed]
                log.warning("leftover containers removed", extra={"attempts": names})
            break
        held = {each.folder.path for each in self._attempts.values() if each.folder is not None}
        for path in folders - held:
            await SharedFolder(path).remove()

    async def _listen(self) -> None:
        """Read the reports of all attempts together, once per `LISTEN_S`."""
        while True:
            await asyncio.sleep(LISTEN_S)
            folders = {
                key: attempt.folder
                for key, attempt in self._attempts.items()
                if attempt.folder is not None
            }
            for key, report in await asyncio.to_thread(new_reports, folders) if folders else ():
                if key in self._attempts:
                    self._pass_on(key, report)


def _raise_bug(serving: asyncio.Task[None]) -> None:
    if not serving.cancelled():  # This task is not awaited; its failure must be visible.
        serving.result()
