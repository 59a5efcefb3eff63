"""Reads of outputs for the node.

A reader requests one part after the other. An output is kept open for some time after a request, so
that the end of an output that is only in memory can be read after the attempt has ended.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import cast

from rota.core.model.attempt import AttemptKey
from rota.executor.executor import Output
from rota.executor.warden.hosted_executors import HostedExecutors
from rota.executor.warden.messages import Data, Expire, Expired, Read, ToNode

log = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""The time that a patient request waits for output before it gets an empty answer."""
KEPT_OPEN_S = 30.0
"""The time that an output stays open after a read: most readers send the next request at once."""


@dataclass(slots=True)
class _Open:
    output: Output
    used_at: float


class Outputs:
    """The outputs of all executors of a warden.

    Args:
        hosts: The executors.
        answer: Called with every answer.
    """

    def __init__(self, hosts: HostedExecutors, *, answer: Callable[[ToNode], None]) -> None:
        self._hosts = hosts
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._open: dict[tuple[str, AttemptKey], _Open] = {}
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def use(self, group: asyncio.TaskGroup) -> None:
        """Use *group* for the asyncio tasks of answers."""
        self._group = group

    def close(self) -> None:
        """Cancel pending answers, and send no more."""
        self._group = None
        for task in self._tasks:
            task.cancel()

    def read(self, question: Read) -> None:
        """Answer a request with `Data`, at once or when there is output."""
        self._start(self._read(question))

    def expire(self, question: Expire) -> None:
        """Remove old outputs of an executor, and answer with `Expired`."""
        self._start(self._expire(question))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        if self._group is None:
            work.close()
            return
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(self, question: Read) -> None:
        try:
            output = await self._output(question.executor, question.key)
            if output is None:
                self._answer(Data(question.number))
                return
            part = await _part(output, question)
            self._answer(Data(question.number, True, output.is_complete, part))
        except OSError as error:
            log.error("output not read", extra={"attempt": str(question.key), "reason": str(error)})
            self._answer(Data(question.number, error=error.strerror or str(error)))

    async def _output(self, executor: str, key: AttemptKey) -> Output | None:
        now = self._loop.time()
        for each, one in list(self._open.items()):
            if now - one.used_at > KEPT_OPEN_S:
                del self._open[each]
        found = self._open.get((executor, key))
        if found is not None:
            found.used_at = now
            return found.output
        host = self._hosts.find(executor)
        output = await host.output(key) if host else None
        if output is not None:
            self._open[executor, key] = _Open(output, now)
        return output

    async def _expire(self, question: Expire) -> None:
        executor = self._hosts.find(question.executor)
        count = 0
        try:
            count = await executor.expire(question.before) if executor else 0
        except OSError as error:
            log.error("outputs not expired", extra={"reason": str(error)})
        self._answer(Expired(question.number, count))


async def _part(output: Output, question: Read) -> bytes:
    """Return the requested bytes; if there are none yet, a patient request waits for output."""
    part = await output.read(question.offset, question.limit) if question.limit else b""
    if part or output.is_complete or not question.is_patient:
        return part
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S), aclosing(_followed(output, question)) as parts:
            async for more in parts:
                return more
    return b""


def _followed(output: Output, question: Read) -> AsyncGenerator[bytes]:
    # The seam promises only an iterator; the iterators here are generators, which must be closed.
    return cast("AsyncGenerator[bytes]", output.follow(question.offset))
