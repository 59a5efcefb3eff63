"""Apps: the tasks of a program, and their connection to the nodes."""

import inspect
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from rota.client.app.errors import InvalidFlow, InvalidTask
from rota.client.app.flows import Flow
from rota.client.app.graphs import Body
from rota.client.app.placeholders import Json
from rota.client.app.source_lines import is_second
from rota.client.app.tasks import Settings, Task
from rota.client.client import Client
from rota.client.given_times import GivenDuration
from rota.core.model.ids import NAME_RULE, is_name

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
        self._flows: dict[str, Flow] = {}
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
        timeout: GivenDuration = 0,
        schedule: str | None = None,
        timezone: str | None = None,
        namespace: str | None = None,
    ) -> Decorator:
        """Return a decorator that makes a task of a function.

        Args:
            retries: The number of retries of a failed call.
            backoff: The delays between attempts, ``exp 1s..5m`` or ``fixed 30s``; None for 1 s,
                doubled up to 5 min.
            timeout: The limit of an attempt, in seconds, as text such as ``10m``, or as a
                `timedelta`; 0 for none.
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

    def flow(
        self,
        name: str,
        *,
        schedule: str | None = None,
        timezone: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        namespace: str | None = None,
        **options: Json,
    ) -> Flow:
        """Return a flow, to be defined in a ``with``: calls of tasks in it become tasks of one job.

            with app.flow("nightly", schedule="0 2 * * *") as flow:
                load(extract(flow.params.day))

        Args:
            name: The name, the second part of the name of its job.
            schedule: The schedule of the job; None for executions on request only.
            timezone: The time zone of the schedule; None for UTC.
            parameters: The defaults of parameters of the flow.
            namespace: The namespace of the job; None for ``default``.
            options: Further fields of the job, such as ``overlap="skip"`` and
                ``execution_timeout="2h"``.

        Raises:
            InvalidFlow: The name, a parameter or an option is invalid. Errors of the definition
                are raised at their line in the ``with``, or at its end.
        """
        if not is_name(name):
            raise InvalidFlow(f"the name {name!r} of a flow is invalid; use {NAME_RULE}")
        frame = inspect.currentframe()
        caller = frame.f_back if frame else None
        place = f"{caller.f_code.co_filename}:{caller.f_lineno}" if caller else "an unknown place"
        module: str = caller.f_globals.get("__name__", "") if caller else ""
        fields = {"schedule": schedule, "timezone": timezone, "namespace": namespace, **options}
        return Flow(
            self,
            f"{self.name}.{name}",
            place=place,
            module=module,
            parameters=parameters or {},
            options={name: value for name, value in fields.items() if value is not None},
            register=self._add_flow,
        )

    def jobs(self) -> list[Body]:
        """Return the jobs of the tasks with a schedule and of the flows, in their order.

        Raises:
            InvalidTask: A node cannot import one of the functions.
        """
        return [body for _, body in self.placed_jobs()]

    def placed_jobs(self) -> list[tuple[str, Body]]:
        """Return the jobs as `jobs` does, each after the file and the line of its definition."""
        tasks = [each for each in self._tasks.values() if each.settings.schedule is not None]
        flows = self._flows.values()
        return [
            *((each.line, each.job()) for each in tasks),
            *((each.place, each.job()) for each in flows),
        ]

    def _add_flow(self, flow: Flow) -> None:
        known = self._flows.get(flow.name)
        # A module that is imported again defines its flows again.
        if known is not None and known.place != flow.place:
            raise InvalidFlow(
                f"the flows at {known.place} and {flow.place} have the same name {flow.name}; "
                "rename one of them"
            )
        scheduled = [each for each in self._tasks.values() if each.settings.schedule is not None]
        if flow.name in [f"{self.name}.{each.name}" for each in scheduled]:
            raise InvalidFlow(
                f"the job {flow.name} of the flow at {flow.place} is that of the task of this "
                "name, which has a schedule; rename the flow"
            )
        self._flows[flow.name] = flow

    def _add(self, task: AnyTask) -> AnyTask:
        known = self._tasks.get(task.name)
        # A module that is imported again defines its tasks again.
        if known is not None and known.place != task.place:
            raise InvalidTask(
                f"{known.place} and {task.place} have the same name in the app {self.name}; rename "
                "one of them"
            )
        if known is not None and known.line != task.line and is_second(known.line, task.line):
            raise InvalidTask(
                f"the functions at {known.line} and {task.line} have the same name {task.name} in "
                f"the app {self.name}; rename one of them"
            )
        self._tasks[task.name] = task
        return task
