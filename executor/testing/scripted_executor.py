"""An executor that runs nothing: its attempts end as their parameters describe.

It is registered as the type ``scripted``, for tests, demonstrations, simulation and benchmarks. An
attempt costs a few microseconds: attempts that end at once share one turn of the loop.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Literal

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.model.attempt import OUTPUT_TAIL_BYTES, AttemptKey, Ending, Order, Outcome
from rota.core.timing.instants import SECOND, Duration, Instant, format_duration
from rota.executor.executor import CLOSE_GRACE, READ_BYTES, Ended, Output
from rota.executor.secret_values import NO_SECRETS, SecretValues

SCRIPTED = "scripted"
"""The name of the executor in tasks."""
_ENDINGS_PER_TURN = 256  # About 1 ms of the loop; the rest of a burst waits one turn.


class Script(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """The parameters of a scripted task; all have defaults, so ``{}`` succeeds at once.

    Attributes:
        outcome: ``success`` or ``failed``; by default, it follows from *exit_code*. ``succeeded``
            means ``success``.
        exit_code: The exit code; by default 0 for a success and 1 for a failure.
        sleep_ms: The length of the attempt in milliseconds; the task's timeout may end it before.
        output: The output, all of it written at the start.
        fail_times: Attempts up to this number fail; later ones end with *outcome*.
    """

    outcome: Literal["success", "succeeded", "failed"] | None = None
    exit_code: Annotated[int, msgspec.Meta(ge=0, le=255)] | None = None
    sleep_ms: Annotated[int, msgspec.Meta(ge=0, le=10**10)] = 0
    output: str = ""
    fail_times: Annotated[int, msgspec.Meta(ge=0)] = 0

    def __post_init__(self) -> None:
        if self.outcome is None or self.exit_code is None:
            return
        if (self.outcome != "failed") != (self.exit_code == 0):
            raise ValueError(f"{self.outcome} contradicts exitCode {self.exit_code}")

    def exit_code_of(self, number: int) -> int:
        """Return the exit code of the attempt *number*."""
        if number <= self.fail_times:
            return self.exit_code or 1
        if self.exit_code is not None:
            return self.exit_code
        return 1 if self.outcome == "failed" else 0


class ScriptedExecutor:
    """Ends attempts as scripted; see `rota.executor.executor.Executor` for the seam.

    Args:
        ended: Called with every ending.
        now: The clock for the times in endings.
    """

    def __init__(self, *, ended: Ended, now: Callable[[], Instant]) -> None:
        self._ended = ended
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._playing: dict[AttemptKey, _Played] = {}
        self._due: deque[_Played] = deque()
        self._is_turn_asked = False
        self._is_closed = False
        self._idle = asyncio.Event()

    def launch(self, order: Order, secrets: SecretValues = NO_SECRETS) -> None:
        """Plan the ending, for the next turn of the loop or for the end of the script's sleep."""
        assert order.key not in self._playing, f"{order.key} is launched twice"
        assert not self._is_closed, f"{order.key} is launched after close"
        played = _Played(order.key, self._now())
        self._playing[order.key] = played
        try:
            parameters = order.work.parameters
            script = _DECODER.decode(parameters) if parameters else _SUCCESS
        except (*UNDECODABLE, UnicodeEncodeError) as error:
            played.reason = f"bad parameters of a scripted task: {error}"
            self._end_soon(played)
            return
        delay_s = played.plan(script, order.work.timeout)
        if delay_s:
            played.timer = self._loop.call_later(delay_s, self._end_soon, played)
        else:
            self._end_soon(played)

    def resume(self, order: Order) -> None:
        """Report the attempt as lost: a script does not continue after a restart."""
        assert order.key not in self._playing, f"{order.key} is launched twice"
        assert not self._is_closed, f"{order.key} is launched after close"
        played = self._playing[order.key] = _Played(order.key, self._now())
        played.outcome, played.reason = Outcome.LOST, "the process that played it has ended"
        self._end_soon(played)

    def stop(self, key: AttemptKey, *, grace: Duration | None = None) -> None:
        """Cancel a sleeping attempt; no grace is needed."""
        played = self._playing.get(key)
        if played is None or played.timer is None:  # Unknown, or its end is about to be reported.
            return
        played.timer.cancel()
        played.outcome, played.exit_code, played.signal = Outcome.CANCELLED, -1, 15
        played.reason = "stopped on request"
        self._end_soon(played)

    async def output(self, key: AttemptKey) -> Output | None:
        """Return the output of a running attempt; the output of an ended one is not kept."""
        return self._playing.get(key)

    async def expire(self, before: Instant) -> int:
        """Return 0: there are no files."""
        return 0

    async def close(self, grace: Duration = CLOSE_GRACE) -> None:
        """Cancel sleeping attempts, and wait until all ends are reported."""
        self._is_closed = True
        for key in list(self._playing):
            self.stop(key)
        if self._playing:
            await self._idle.wait()

    def _end_soon(self, played: "_Played") -> None:
        played.timer = None
        self._due.append(played)
        if not self._is_turn_asked:
            self._is_turn_asked = True
            self._loop.call_soon(self._end_due)

    def _end_due(self) -> None:
        # Attempts that `ended` launches wait for the next turn, so a chain cannot block the loop.
        self._is_turn_asked = False
        finished_at = self._now()
        try:
            for _ in range(min(len(self._due), _ENDINGS_PER_TURN)):
                played = self._due.popleft()
                del self._playing[played.key]
                played.complete()
                self._ended(played.key, played.ending(finished_at))
        finally:
            if self._due and not self._is_turn_asked:
                self._is_turn_asked = True
                self._loop.call_soon(self._end_due)
            if self._is_closed and not self._playing:
                self._idle.set()


class _Played:
    """One running attempt, and its output."""

    __slots__ = (
        "_completed",
        "exit_code",
        "is_complete",
        "key",
        "outcome",
        "output",
        "reason",
        "signal",
        "started_at",
        "timer",
    )

    def __init__(self, key: AttemptKey, started_at: Instant) -> None:
        self.key = key
        self.started_at = started_at
        self.timer: asyncio.TimerHandle | None = None
        self.outcome = Outcome.FAILED
        self.exit_code = -1
        self.signal = 0
        self.reason = ""
        self.output = b""
        self.is_complete = False
        self._completed: asyncio.Event | None = None

    def plan(self, script: Script, timeout: Duration) -> float:
        """Take the ending from *script*; return the number of seconds until it."""
        self.output = script.output.encode("utf-8", "surrogatepass")
        sleep = Duration(script.sleep_ms * 1_000)
        if 0 < timeout < sleep:
            self.outcome, self.signal = Outcome.TIMED_OUT, 15
            self.reason = f"still running after its timeout of {format_duration(timeout)}"
            return timeout / SECOND
        self.exit_code = script.exit_code_of(self.key.number)
        if self.exit_code == 0:
            self.outcome = Outcome.SUCCEEDED
        else:
            self.reason = f"exited with code {self.exit_code}"
        return sleep / SECOND

    def complete(self) -> None:
        self.is_complete = True
        if self._completed is not None:
            self._completed.set()

    def ending(self, finished_at: Instant) -> Ending:
        return Ending(
            outcome=self.outcome,
            started_at=self.started_at,
            finished_at=finished_at,
            exit_code=self.exit_code,
            signal=self.signal,
            reason=self.reason,
            output=self.output[-OUTPUT_TAIL_BYTES:],
            output_bytes=len(self.output),
        )

    async def read(self, offset: int, limit: int = READ_BYTES) -> bytes:
        return self.output[offset : offset + limit]

    async def follow(self, offset: int = 0) -> AsyncIterator[bytes]:
        while part := await self.read(offset):
            offset += len(part)
            yield part
        if not self.is_complete:
            if self._completed is None:
                self._completed = asyncio.Event()
            await self._completed.wait()


_DECODER = msgspec.json.Decoder(Script)
_SUCCESS = Script()
