"""The node's proxies of the executors in its warden."""

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple, Protocol

from rota.core.model.attempt import AttemptKey, Order
from rota.core.timing.instants import Duration, Instant
from rota.executor.executor import CLOSE_GRACE, READ_BYTES, Ended, Output, Reported
from rota.executor.secret_values import NO_SECRETS, SecretValues
from rota.executor.warden.messages import Data


class Right(NamedTuple):
    """The lease group of an attempt, and the instant until which it may run, by CLOCK_BOOTTIME."""

    group: str
    until: Instant


RightOf = Callable[[Order], Right]
"""A function that returns the right of an attempt that is about to be launched."""


class AttemptEvents(NamedTuple):
    """Callbacks for an attempt in the warden.

    Attributes:
        ended: Called with its ending.
        reported: Called with each of its reports.
    """

    ended: Ended
    reported: Reported


class WardenRequests(Protocol):
    """The requests to the warden that its executors make."""

    def launch(
        self, order: Order, right: Right, events: AttemptEvents, secrets: SecretValues
    ) -> None:
        """Start an attempt with *secrets*, which may run as long as *right* allows."""
        ...

    def resume(self, order: Order, events: AttemptEvents) -> None:
        """Resume an attempt that the warden holds; any other ends as lost."""
        ...

    def stop(self, key: AttemptKey, grace: Duration | None) -> None:
        """Stop an attempt."""
        ...

    async def end_all(self, executor: str, grace: Duration) -> None:
        """Stop all attempts of an executor, each within *grace*, and wait for their ends."""
        ...

    async def read(
        self, executor: str, key: AttemptKey, offset: int, limit: int, *, is_patient: bool
    ) -> Data:
        """Return part of an output."""
        ...

    async def expire(self, executor: str, before: Instant) -> int:
        """Remove old outputs, and return the number of removed ones."""
        ...


class WardenExecutor:
    """An executor of the warden; see `rota.executor.executor.Executor` for the seam.

    Args:
        name: The name of the executor in tasks.
        warden: The link to the warden.
        events: Callbacks for its attempts.
        right_of: Returns the right of each attempt that is launched.
    """

    def __init__(
        self, name: str, warden: WardenRequests, events: AttemptEvents, right_of: RightOf
    ) -> None:
        self._name = name
        self._warden = warden
        self._events = events
        self._right_of = right_of
        self._is_closed = False

    def launch(self, order: Order, secrets: SecretValues = NO_SECRETS) -> None:
        """Request the start of an attempt from the warden."""
        assert not self._is_closed, f"{order.key} is launched after close"
        self._warden.launch(order, self._right_of(order), self._events, secrets)

    def resume(self, order: Order) -> None:
        """Resume an attempt that the warden holds."""
        assert not self._is_closed, f"{order.key} is launched after close"
        self._warden.resume(order, self._events)

    def stop(self, key: AttemptKey, *, grace: Duration | None = None) -> None:
        """Request the stop of an attempt from the warden."""
        self._warden.stop(key, grace)

    async def output(self, key: AttemptKey) -> Output | None:
        """Return the output if the warden keeps any, else None."""
        data = await self._warden.read(self._name, key, 0, 0, is_patient=False)
        return _Reading(self._name, key, self._warden, data.is_complete) if data.is_kept else None

    async def expire(self, before: Instant) -> int:
        """Request the removal of old outputs from the warden."""
        return await self._warden.expire(self._name, before)

    async def close(self, grace: Duration = CLOSE_GRACE) -> None:
        """Stop every attempt of this executor and wait for their ends."""
        self._is_closed = True
        await self._warden.end_all(self._name, grace)


class _Reading:
    """An output in the warden; implements `rota.executor.executor.Output`."""

    def __init__(
        self, executor: str, key: AttemptKey, warden: WardenRequests, is_complete: bool
    ) -> None:
        self.is_complete = is_complete
        self._executor = executor
        self._key = key
        self._warden = warden

    async def read(self, offset: int, limit: int = READ_BYTES) -> bytes:
        """Return part of the output."""
        return await self._read(offset, limit, is_patient=False)

    async def follow(self, offset: int = 0) -> AsyncIterator[bytes]:
        """Yield parts as they arrive."""
        while True:
            part = await self._read(offset, READ_BYTES, is_patient=True)
            offset += len(part)
            if part:
                yield part
            elif self.is_complete:
                return

    async def _read(self, offset: int, limit: int, *, is_patient: bool) -> bytes:
        data = await self._warden.read(
            self._executor, self._key, offset, limit, is_patient=is_patient
        )
        self.is_complete = data.is_complete
        return data.part
