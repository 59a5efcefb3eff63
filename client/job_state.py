"""The state of the job of a task: values that executions share, cursors and locks."""

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from rota.client.client import Client
from rota.client.errors import Conflict, NotFound
from rota.core.errors import RotaError
from rota.wire.documents import Json

TRIES_MAX = 100
"""The most tries of a change while others change the same value."""
POLL_S = 0.5
"""The time between two tries to get a lock."""


class JobState:
    """The state of a job, in a task of it with ``identity``, or elsewhere with a client.

    Values are linearizable: a read returns the newest acknowledged change, by any caller.
    """

    def __init__(
        self,
        job: str = "",
        *,
        client: Client | None = None,
        execution_id: str = "",
        task: str | None = None,
    ) -> None:
        """Initialize without a request.

        Args:
            job: The job, as ``namespace/name``; in a task, its job by default.
            client: The client; one with the settings of the environment by default.
            execution_id: The execution that holds locks; in a task, its execution by default.
            task: The task that holds locks; in a task, this task by default.
        """
        own = f"{os.environ.get('ROTA_NAMESPACE', '')}/{os.environ.get('ROTA_JOB', '')}"
        self._job = job or own
        self._client = client or Client()
        self._execution_id = execution_id or os.environ.get("ROTA_EXECUTION_ID", "")
        self._task = task or os.environ.get("ROTA_TASK") or None

    def get(self, key: str, default: Json = None) -> Json:
        """Return a value; *default* if there is none."""
        try:
            return self._client.get_state(self._job, key).value
        except NotFound as error:
            if error.code != "state_not_found":
                raise
            return default

    def set(self, key: str, value: Json) -> None:
        """Set a value: anything that JSON can represent, at most 64 KiB as JSON."""
        self._client.put_state(self._job, key, value)

    def advance(self, key: str, value: float | str) -> None:
        """Set a cursor: a number, or a text such as a time, that never becomes smaller.

        Raises:
            Conflict: The value is smaller than the one before.
        """
        self._client.put_state(self._job, key, value, only_forward=True)

    def update(self, key: str, change: Callable[[Json], Json], default: Json = None) -> Json:
        """Replace a value by what *change* makes of it, and return that; no change is lost.

        Args:
            key: The name of the value.
            change: Returns the new value; it is called again if another change came between.
            default: The value that *change* gets if there is none.

        Raises:
            Conflict: Others changed the value between, `TRIES_MAX` times.
        """
        tries = 0
        while True:
            value, revision = default, 0
            try:
                found = self._client.get_state(self._job, key)
                value, revision = found.value, found.revision
            except NotFound as error:
                if error.code != "state_not_found":
                    raise
            changed = change(value)
            try:
                self._client.put_state(self._job, key, changed, if_revision=revision)
            except Conflict:
                tries += 1
                if tries == TRIES_MAX:
                    raise
            else:
                return changed

    def delete(self, key: str) -> None:
        """Delete a value, which need not exist."""
        self._client.delete_state(self._job, key)

    @contextmanager
    def lock(self, key: str, *, timeout_s: float = 3600.0) -> Generator[None]:
        """Hold a lock of the job: at most one task has it, and no longer than it is unfinished.

        A task whose node fails keeps its locks for its next attempt.

        Args:
            key: The name of the lock, which is a key of the state.
            timeout_s: The longest wait for it, in seconds.

        Raises:
            Conflict: Another task held it all the time.
        """
        self.acquire(key, timeout_s=timeout_s)
        try:
            yield
        finally:
            self._release(key)

    def acquire(self, key: str, *, timeout_s: float) -> None:
        """Get a lock, as `lock` does, and keep it until the task ends.

        Raises:
            Conflict: Another task held it all the time.
        """
        pauses = int(timeout_s / POLL_S)
        while True:
            try:
                self._client.put_state(
                    self._job,
                    key,
                    True,
                    if_revision=0,
                    execution_id=self._execution_id,
                    task=self._task,
                )
            except Conflict:
                if not pauses:
                    raise
                pauses -= 1
                time.sleep(POLL_S)
            else:
                return

    def _release(self, key: str) -> None:
        """Delete a lock, unless a user has deleted it and another task has it now.

        One that cannot be deleted now ends with the task.
        """
        with suppress(RotaError):
            found = self._client.get_state(self._job, key)
            if (found.execution_id, found.task) == (self._execution_id, self._task):
                self._client.delete_state(self._job, key, if_revision=found.revision)
