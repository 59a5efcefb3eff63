"""Apps: the tasks of a program, and their connection to the nodes."""

import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from rota.client.app.errors import InvalidTask
from rota.client.app.tasks import Body, Settings, Task
from rota.client.client import Client
from rota.core.model.ids import is_name

P = ParamSpec("P")
T = TypeVar("T")

AnyTask = Task[..., Any, Any]  # Any: an app has tasks of all types.


class Decorator(Protocol):
    """Makes a task of a function or of an ``async def``."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> Task[P, Coroutine[Any, Any, T], T]: ...

    @overload
    def __call__(self, function: Callable[P, T], /) -> Task[P, T, T]: ...


class App:
    """The tasks of a program.

    The nodes import the functions, so they need the modules, and an interpreter with rota. Both are
    those of this program unless *path* and *interpreter* are given.

    Args:
        name: The name: the first part of the names of its jobs, and their label ``app``.
        url: The addresses of nodes, as of `Client`; ``$ROTA_URL`` by default.
        path: The folders in which the nodes search for the modules; those of this program by
            default.
        interpreter: The Python interpreter on the nodes; that of this program by default, and the
            node's own if it is empty.

    Attributes:
        name: The name.
        interpreter: The interpreter.
        path: The folders, or None.

    Raises:
        InvalidTask: The name is invalid.

    Threads may share an app. It connects at the first call that is submitted, with the token and
    the certificates that the environment variables of `Client` name.
    """

    def __init__(
        self,
        name: str,
        url: str | None = None,
        *,
        path: Sequence[str] | None = None,
        interpreter: str | None = None,
    ) -> None:
        if not is_name(name):
            raise InvalidTask(
                f"the app's name {name!r} is invalid; use letters, digits, dots, underscores and "
                "hyphens"
            )
        self.name = name
        self.path = None if path is None else list(path)
        self.interpreter = sys.executable if interpreter is None else interpreter
        self._url = url
        self._tasks: dict[str, AnyTask] = {}
        self._client: Client | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"App({self.name!r})"

    @property
    def client(self) -> Client:
        """The connection of this app, made at its first use."""
        with self._lock:
            if self._client is None:
                self._client = Client(self._url)
            return self._client

    def close(self) -> None:
        """Close the connection; handles cannot be used any more, and a new call connects again."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def task(
        self,
        *,
        retries: int = 0,
        backoff: str | None = None,
        timeout: float | str = 0,
        schedule: str | None = None,
        timezone: str | None = None,
        namespace: str | None = None,
    ) -> Decorator:
        """Return a decorator that makes a task of a function.

        Args:
            retries: The number of retries of a failed call.
            backoff: The delays between attempts, ``exp 1s..5m`` or ``fixed 30s``; None for 1 s,
                doubled up to 5 min.
            timeout: The limit of an attempt, in seconds or as text such as ``10m``; 0 for none.
            schedule: The schedule with which `rota deploy` saves a job for the task.
            timezone: The time zone of the schedule; None for UTC.
            namespace: The namespace of its jobs; None for ``default``.

        Raises:
            InvalidTask: The function or a setting cannot be used; raised by the decorator.
        """
        settings = Settings(
            retries=retries,
            backoff=backoff,
            timeout=timeout,
            schedule=schedule,
            timezone=timezone,
            namespace=namespace,
        )

        def decorate(function: Callable[..., Any]) -> AnyTask:
            return self._add(Task(self, function, settings))

        return cast("Decorator", decorate)  # Its types follow from the function.

    def jobs(self) -> list[Body]:
        """Return the jobs of the tasks with a schedule, in the order of their definition.

        Raises:
            InvalidTask: A node cannot import one of the functions.
        """
        scheduled = [each for each in self._tasks.values() if each.settings.schedule is not None]
        return [each.job() for each in scheduled]

    def _add(self, task: AnyTask) -> AnyTask:
        known = self._tasks.get(task.name)
        # A module that is imported again defines its tasks again.
        if known is not None and known.place != task.place:
            raise InvalidTask(
                f"{known.place} and {task.place} have the same name in the app {self.name}; rename "
                "one of them"
            )
        self._tasks[task.name] = task
        return task
