"""Functions as tasks: their settings, and the jobs that call them."""

import asyncio
import functools
import inspect
import re
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast

import msgspec

from rota.client.app.errors import InvalidArgument, InvalidFlow, InvalidTask
from rota.client.app.graphs import ITEM, Body, Placement, Step, current, running
from rota.client.app.handles import Group, Handle
from rota.client.app.placeholders import (
    Json,
    Placeholder,
    Tree,
    argument,
    placeholders_in,
    refuse_placeholders,
)
from rota.client.app.signatures import Signature, checked_json
from rota.client.client import Client
from rota.client.given_times import (
    GivenDuration,
    GivenInstant,
    as_text,
    duration_of,
    instant_of,
)
from rota.client.requests import MAIN_TASK
from rota.core.model.given_durations import read_duration
from rota.core.timing.instants import (
    Duration,
    Instant,
    format_instant,
    later,
)
from rota.wire.documents import ITEMS_MAX, ExecutionView, RepeatBody, TaskView

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
A = TypeVar("A")
A_contra = TypeVar("A_contra", contravariant=True)

_BACKOFF = re.compile(r"exp (\S+?)\.\.(\S+)|fixed (\S+)")
_ANYWHERE = Placement()
ARGUMENTS_BYTES_MAX = 120_000
"""The limit of a node; see `PARAMETERS_MAX` of `rota.wire.bodies.field_reader`."""
_LIBRARIES = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a task.

    Attributes:
        retries: The number of retries.
        backoff: The delays between attempts: ``exp 1s..5m`` doubles from 1 s to 5 min, ``fixed
            30s`` is always the same; None for the default of jobs.
        timeout: The limit of an attempt, in seconds or as text such as ``10m``; 0 for none.
        schedule: The schedule of the job that `rota deploy` saves; None for none.
        timezone: The time zone of the schedule; None for UTC.
        namespace: The namespace of its jobs; None for ``default``.
        due_at: When its calls are due; None for now, or after *delay*.
        delay: How long after a call is submitted it is due; None for *due_at*.
        placement: What a call has in a flow alone.
        held: The arguments that its calls have already, by name.
    """

    retries: int = 0
    backoff: str | None = None
    timeout: GivenDuration = 0
    schedule: str | None = None
    timezone: str | None = None
    namespace: str | None = None
    due_at: Instant | None = None
    delay: Duration | None = None
    placement: Placement = _ANYWHERE
    held: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def fields(self) -> Body:
        """Return the fields of a task that has these settings.

        Raises:
            InvalidTask: *backoff* is malformed, or there are no retries.
        """
        fields: Body = {}
        if self.backoff is not None:
            fields["retries"] = {"limit": self.retries, **_backoff(self.backoff, self.retries)}
        elif self.retries:
            fields["retries"] = self.retries
        if self.timeout:
            fields["timeout"] = as_text(self.timeout)
        return fields


class Host(Protocol):
    """The app of a task."""

    @property
    def name(self) -> str:
        """The name of the app."""
        ...

    @property
    def client(self) -> Client:
        """The connection to the nodes."""
        ...

    @property
    def interpreter(self) -> str:
        """The interpreter that calls the functions."""
        ...

    @property
    def path(self) -> list[str] | None:
        """The folders of the modules; None for those of this program."""
        ...


class OfOneItem(Protocol[A_contra, T_co]):
    """A task that can be called with a single argument by position."""

    def delay(self, item: A_contra, /) -> Handle[T_co]:
        """Submit a call with *item*."""
        ...


class Task(Generic[P, R_co, T_co]):
    """A function that can be called here, and on a node.

    P are its parameters, R_co is what a call here returns, and T_co the result: for an ``async
    def``, a call returns a coroutine with the result.

    Args:
        host: The app.
        function: The function.
        settings: The settings.

    Attributes:
        name: The name of the function, which is that of the task.
        line: The file and the line of its definition.
        place: The function as ``module:function``.
        settings: The settings.

    Raises:
        InvalidTask: The function or a setting cannot be used.
    """

    def __init__(self, host: Host, function: Callable[P, R_co], settings: Settings) -> None:
        self._function = function
        if not inspect.isfunction(function):
            raise InvalidTask(f"{function!r} is not a function; define one with def")
        functools.update_wrapper(self, function)
        self.name = function.__name__
        self.line = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
        self.place = f"{function.__module__}:{function.__qualname__}"
        self.settings = settings
        self._host = host
        if "." in function.__qualname__ or self.name == "<lambda>":
            raise InvalidTask(
                f"{self.place} is defined in a function or a class, where a node cannot import "
                "it; define it with def at the top of a module"
            )
        self._signature = Signature(function, self.place)
        settings.fields()
        if settings.schedule is not None and self._signature.required:
            raise InvalidTask(
                f"{self.place} has a schedule, which passes no arguments; give "
                f"{', '.join(self._signature.required)} a default"
            )
        # A worker calls this in place of the task.
        self.__rota_function__ = _on_worker(function, self._signature)

    def __repr__(self) -> str:
        return f"Task({self.place!r})"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function here; in the definition of a flow, add this call to it.

        In a flow, what is returned is a `Call`, which stands for the result in the arguments of
        other calls.

        Raises:
            InvalidArgument, InvalidFlow: As of `Flow.add`, in a flow.
        """
        flow = current()
        if flow is None:
            return self._call(args, kwargs)
        return cast("R_co", flow.add(self.step(args, kwargs)))  # So checkers see its use.

    def local(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function here, also in the definition of a flow."""
        with running():  # The function may call other tasks.
            return self._call(args, kwargs)

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> Handle[T_co]:
        """Submit a call to the nodes: now, or when `at` or `after` says.

        Raises:
            InvalidArgument: An argument does not fit, or cannot be expressed in JSON.
            InvalidTask: A node cannot import the function.
            InvalidFlow: It is in the definition of a flow.
            Invalid, NotAllowed, TooBusy, Unreachable: As of `Client`.
        """
        flow = current()
        if flow is not None:
            raise InvalidFlow(
                f"{self.name}.delay() submits a call at once, but the flow {flow.name} is being "
                f"defined; write {self.name}(...) to add a call to it"
            )
        return self.handle(self._submit(self.work(args, kwargs)))

    async def adelay(self, *args: P.args, **kwargs: P.kwargs) -> Handle[T_co]:
        """Submit a call as `delay` does, without blocking the event loop."""
        return await asyncio.to_thread(self.delay, *args, **kwargs)

    def map(self: OfOneItem[A, T], items: Iterable[A]) -> Group[T]:
        """Submit a call for each of *items*: as the tasks of one execution, up to 1,000 of them.

        A call that fails does not stop the others. In the definition of a flow, this adds a loop to
        it, and returns a `Call` for the list of the results; the first failure ends the loop.

        Raises:
            InvalidArgument: An item does not fit, or cannot be expressed in JSON; none was sent.
            InvalidTask, Invalid, NotAllowed, TooBusy, Unreachable: As of `delay`.
        """
        task = cast("Task[[A], Any, T]", self)  # OfOneItem describes the parameters alone.
        flow = current()
        if flow is not None:
            return cast("Group[T]", flow.add(task.mapped_step(items)))  # As for a call.
        works = [task.work((item,)) for item in items]
        parts = [works[start : start + ITEMS_MAX] for start in range(0, len(works), ITEMS_MAX)]
        return task.group([(task._submit_many(part), len(part)) for part in parts])  # noqa: SLF001 - of this class

    def partial(self, **kwargs: Any) -> "Task[..., R_co, T_co]":  # Any: of the function's types.
        """Return this task with some of its arguments, such as those that all items of a `map` get.

        Arguments by position go to the other parameters, in their order. All types are checked at
        the call, where an argument by name replaces one of these.

        Raises:
            InvalidArgument: The function has no such parameter.
        """
        held = {**self.settings.held, **kwargs}
        self._signature.check_names(held)
        return cast("Task[..., R_co, T_co]", self._with(held=held))

    def at(self, when: GivenInstant) -> "Task[P, R_co, T_co]":
        """Return this task for calls that are due at *when*; a past time is due at once.

        Args:
            when: A `datetime` with a time zone, or text such as ``2027-01-01T00:00:00+01:00``.

        Raises:
            InvalidArgument: *when* is no such instant.
        """
        try:
            due_at = instant_of(when)
        except ValueError as error:
            raise InvalidArgument(str(error)) from error
        return self._with(due_at=due_at, delay=None)

    def after(self, delay: GivenDuration) -> "Task[P, R_co, T_co]":
        """Return this task for calls that are due later: ``after("10s")``, seconds, a `timedelta`.

        Raises:
            InvalidArgument: *delay* is not a duration.
        """
        try:
            span = duration_of(delay)
        except ValueError as error:
            raise InvalidArgument(str(error)) from error
        return self._with(delay=span, due_at=None)

    def repeat(
        self, *, until: str, limit: int, delay: GivenDuration = "0s"
    ) -> "Task[P, R_co, T_co]":
        """Return this task for a call in a flow that runs in rounds, until a result is as wanted.

        Args:
            until: An expression, evaluated after each round: ``last.state == 'done'``.
            limit: The most rounds, 1 to 1,000; without success after these, the call fails.
            delay: The time between two rounds, in seconds or as text such as ``10s``.

        Raises:
            InvalidArgument: *until* is no text, or *limit* no number.
        """
        given = RepeatBody(until=until, limit=limit, delay=as_text(delay))
        loop = checked_json("repeat", given, RepeatBody, function=self.name)
        return self._with(placement=replace(self.settings.placement, repeat=loop))

    def options(
        self,
        *,
        retries: int | None = None,
        backoff: str | None = None,
        timeout: GivenDuration | None = None,
        namespace: str | None = None,
        name: str | None = None,
        trigger_rule: str | None = None,
        when: str | None = None,
        allow_failure: bool | None = None,
        max_parallel: int | None = None,
        tolerated_failures: int | None = None,
    ) -> "Task[P, R_co, T_co]":
        """Return this task with other settings; None keeps a setting.

        Without retries, there is no backoff.

        Args:
            retries: As of `App.task`.
            backoff: As of `App.task`.
            timeout: As of `App.task`.
            namespace: As of `App.task`; in a flow, that of the flow counts.
            name: For a flow: the name of its task.
            trigger_rule: For a flow: when it starts, such as ``all_done``.
            when: For a flow: an expression, such as ``results.count > 0``, without which the call
                is skipped. The calls that it names are needed, as those of arguments are.
            allow_failure: For a flow: whether its failure counts as a success.
            max_parallel: For a `map` in a flow: how many items may run at the same time.
            tolerated_failures: For a `map` in a flow: how many items may fail.

        Raises:
            InvalidTask: *backoff* is malformed.
            InvalidFlow: A setting for flows is invalid.
        """
        given = {
            "retries": retries,
            "backoff": backoff,
            "timeout": timeout,
            "namespace": namespace,
        }
        changes: Body = {name: value for name, value in given.items() if value is not None}
        placed = {
            "name": name,
            "trigger_rule": trigger_rule,
            "when": when,
            "allow_failure": allow_failure,
            "max_parallel": max_parallel,
            "tolerated_failures": tolerated_failures,
        }
        placing: Body = {name: value for name, value in placed.items() if value is not None}
        if placing:
            changes["placement"] = replace(self.settings.placement, **placing)
        return self._with(**({"backoff": None} if retries == 0 else {}), **changes)

    def work(self, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Body:
        """Return the fields of a task of a job that calls the function with these arguments.

        Raises:
            InvalidArgument, InvalidTask: As of `delay`.
        """
        given = self._signature.completed(self.settings.held, tuple(args), kwargs or {})
        refuse_placeholders(self.name, *given)
        positional, named = self._signature.encoded(*given)
        return self._fields(positional, named)

    def step(self, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Step:
        """Return a call of the function in a flow, whose arguments may be placeholders.

        Raises:
            InvalidArgument: An argument does not fit, or cannot be expressed in JSON.
            InvalidFlow: The call has a time, or settings of a `map`.
        """
        placement = self.settings.placement
        if (placement.max_parallel, placement.tolerated_failures) != (None, None):
            raise InvalidFlow(
                f"max_parallel and tolerated_failures of {self.name} are for items; use them with "
                f"{self.name}.options(...).map(items)"
            )
        return self._step(*self._encoded(tuple(args), kwargs or {}), items=None)

    def mapped_step(self, items: Any) -> Step:  # Any: a placeholder, or items of any type
        """Return the call of the function for each of *items* in a flow.

        Raises:
            InvalidArgument, InvalidFlow: As of `step`, or values are mixed with placeholders.
        """
        if self.settings.placement.repeat is not None:
            raise InvalidFlow(f"{self.name}.map is a loop, which repeat() cannot repeat")
        positional, named = self._encoded((ITEM,), {})
        if isinstance(items, Placeholder):
            encoded: Tree = items
        else:
            try:
                given = list(items)
            except TypeError as error:
                detail = f"{self.name}.map takes a list of items, and not {items!r}"
                raise InvalidFlow(detail) from error
            held = [isinstance(each, Placeholder) for each in given]
            if any(True for _ in placeholders_in(given)) and not all(held):
                raise InvalidFlow(
                    f"the items of {self.name}.map are both values and calls or parameters; use a "
                    "list of one kind, or let a task return the items"
                )
            place = [each is ITEM for each in (*positional, *named.values())].index(True)
            encoded = [self._item(each, place) for each in given]
        return self._step(positional, named, items=encoded)

    def _item(self, item: Any, place: int) -> Tree:
        """Return an item as it is among the arguments, of which it is that at *place*."""
        positional, named = self._encoded((item,), {})
        return [*positional, *named.values()][place]

    def _encoded(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[list[Tree], dict[str, Tree]]:
        """Return the arguments of a call in a flow as JSON with placeholders."""
        given = self._signature.completed(self.settings.held, args, kwargs)
        return self._signature.encoded(*given, in_flow=True)

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> R_co:
        """Call the function here."""
        args, kwargs = self._signature.completed(self.settings.held, args, kwargs)
        refuse_placeholders(self.name, args, kwargs)
        function = cast("Callable[..., R_co]", self._function)  # Its arguments are complete.
        return function(*args, **kwargs)

    def _step(self, positional: list[Tree], named: dict[str, Tree], *, items: Tree) -> Step:
        if self.settings.due_at is not None or self.settings.delay is not None:
            raise InvalidFlow(
                f"{self.name} has a time of its own, which a call in a flow cannot have: it starts "
                "after those that it needs; leave out at() and after()"
            )
        return Step(
            function=self.name,
            signature=self._signature,
            by_worker=self.__rota_function__,
            fields=self._fields,
            placement=self.settings.placement,
            positional=positional,
            named=named,
            items=items,
        )

    def _fields(self, positional: list[Tree], named: dict[str, Tree]) -> Body:
        """Return the fields of a task of a job that calls the function.

        Raises:
            InvalidArgument: The arguments are too large for a node.
            InvalidTask: A node cannot import the function.
        """
        self._check_place()
        host = self._host
        arguments: Body = {
            "args": [argument(each) for each in positional],
            "kwargs": {name: argument(each) for name, each in named.items()},
        }
        size = len(msgspec.json.encode(arguments))
        if size > ARGUMENTS_BYTES_MAX:
            raise InvalidArgument(
                f"{self.place}: the arguments have {size:,} bytes as JSON; use at most "
                f"{ARGUMENTS_BYTES_MAX:,}, and pass a path or a key in place of large data"
            )
        call: Body = {
            "function": self.place,
            **arguments,
            "interpreter": host.interpreter,
            "path": self._folders() if host.path is None else host.path,
        }
        python = {name: value for name, value in call.items() if value}
        return {"python": python, **self.settings.fields()}

    def job(self) -> Body:
        """Return the job that calls the function at the times of its schedule."""
        fields = {"schedule": self.settings.schedule, "timezone": self.settings.timezone}
        given = {name: value for name, value in fields.items() if value is not None}
        return {"name": f"{self._host.name}.{self.name}", **self._of_app(), **given, **self.work()}

    def handle(self, id: str) -> Handle[T_co]:  # noqa: A002 - that of a handle
        """Return the handle of a call that was submitted elsewhere.

        Args:
            id: The ``id`` of its handle, or the id of an execution of the task's job.
        """
        return Handle(
            self._host.client,
            id,
            lambda ended: self._result_in((ended.tasks or {})[MAIN_TASK]),
            lambda: (_handle_of, (self.place, id)),
        )

    def group(self, parts: Sequence[tuple[str, int]]) -> Group[T_co]:
        """Return the group of a `map`: of the ids of its handles, with the numbers of calls."""
        names = [_item_names(count) for _, count in parts]
        handles = [self._part(*part) for part in parts]
        kept = (_group_of, (self.place, list(parts)))
        return Group(handles, names, self._result_in, lambda: kept)

    def _part(self, id: str, count: int) -> Handle[list[T_co]]:  # noqa: A002 - as of `handle`
        def results_in(ended: ExecutionView) -> list[T_co]:
            tasks = ended.tasks or {}
            return [self._result_in(tasks[name]) for name in _item_names(count)]

        kept = (_part_of, (self.place, id, count))
        return Handle(self._host.client, id, results_in, lambda: kept)

    def _submit_many(self, works: list[Body]) -> str:
        """Submit several calls as one execution, and return the id of its job."""
        names = _item_names(len(works))
        return self._submit(
            {"tasks": [{"name": name, **work} for name, work in zip(names, works, strict=True)]}
        )

    def _submit(self, work: Body) -> str:
        if self.settings.placement != _ANYWHERE:
            raise InvalidTask(
                f"{self.name} has options for a flow; call it in the 'with' of app.flow(), or "
                "leave out repeat() and the options name, trigger_rule, when, allow_failure, "
                "max_parallel and tolerated_failures"
            )
        body = self._once(work)
        return self._host.client.create_job(body).job_id

    def _result_in(self, ended: TaskView) -> T_co:
        result: T_co = self._signature.decoded_result(ended.attempts[-1].result)
        return result

    def _once(self, work: Body) -> Body:
        """Return the job that does *work* once, when this task's calls are due."""
        body = {**self._of_app(), **work}
        due_at = self.settings.due_at
        if self.settings.delay is not None:
            due_at = later(Instant(time.time_ns() // 1_000), self.settings.delay)
        if due_at is None:
            return body
        name = f"{self._host.name}.{self.name}-{token_hex(8)}"
        # With a policy for missed times, a time that has passed is not refused.
        at = {"schedule": f"@at {format_instant(due_at)}", "misfire": "latest"}
        return {"name": name, **at, **body}

    def _of_app(self) -> Body:
        namespace = self.settings.namespace
        fields: Body = {"labels": {"app": self._host.name}}
        return fields if namespace is None else {"namespace": namespace, **fields}

    def _with(self, **changes: Any) -> "Task[P, R_co, T_co]":  # Any: fields of Settings
        return Task(self._host, self._function, replace(self.settings, **changes))

    def _check_place(self) -> None:
        """Check that a node which imports the function gets this task.

        Raises:
            InvalidTask: It does not.
        """
        module, _, name = self.place.partition(":")
        if module == "__main__":
            raise InvalidTask(
                f"{self.name} is in the program that was started (__main__), which a node cannot "
                "import; move it to a module, and import it from there"
            )
        found = getattr(sys.modules.get(module), name, None)
        if not isinstance(found, Task) or found.place != self.place:
            raise InvalidTask(
                f"{self.place} is not this task, but a node would call it; put the decorator on "
                f"the function, and keep the name {name} for it"
            )

    def _folders(self) -> list[str]:
        """Return the folder from which this program imports the module, unless it is installed."""
        module = self.place.partition(":")[0]
        file = Path(sys.modules[module].__file__ or "")
        depth = module.count(".") + (file.name == "__init__.py")
        folder = file.absolute().parents[depth]
        return [] if _LIBRARIES & {*folder.parts} else [str(folder)]


def _item_names(count: int) -> list[str]:
    return [f"item-{number}" for number in range(count)]


def _task_at(place: str) -> Task[..., Any, Any]:  # Any: of any task
    """Return the task of a function, whose module is imported."""
    module, _, name = place.partition(":")
    found: Task[..., Any, Any] = getattr(import_module(module), name)
    return found


def _handle_of(place: str, id: str) -> Handle[Any]:  # noqa: A002 - as of `Task.handle`
    return _task_at(place).handle(id)


def _part_of(place: str, id: str, count: int) -> Handle[list[Any]]:  # noqa: A002 - likewise
    return _task_at(place).group([(id, count)]).handles[0]


def _group_of(place: str, parts: Sequence[tuple[str, int]]) -> Group[Any]:
    return _task_at(place).group(parts)


def _on_worker(function: Callable[..., Any], signature: Signature) -> Callable[..., Any]:
    """Return *function* for JSON: it takes and returns what a worker passes on."""

    def convert_and_call(*args: Json, **kwargs: Json) -> Any:  # Any: JSON, or a coroutine
        positional, named = signature.decoded(args, kwargs)
        value = function(*positional, **named)
        return _encoded(value) if inspect.iscoroutine(value) else signature.encoded_result(value)

    async def _encoded(value: Coroutine[Any, Any, Any]) -> Json:
        return signature.encoded_result(await value)

    return functools.wraps(function)(convert_and_call)


def _backoff(text: str, retries: int) -> Body:
    """Return the delays that *text* describes, as fields of a retry policy."""
    found = _BACKOFF.fullmatch(text)
    try:
        if found is None:
            raise ValueError(f"{text!r} is neither like 'exp 1s..5m' nor like 'fixed 30s'")
        first, last, same = found.groups()
        for each in filter(None, found.groups()):
            read_duration(each)
    except ValueError as error:
        raise InvalidTask(f"the backoff is invalid: {error}") from error
    if not retries:
        raise InvalidTask(f"there is a backoff ({text}), but no retries; set retries, too")
    if same:
        return {"backoff": "fixed", "delay": same}
    return {"backoff": "exponential", "delay": first, "maxDelay": last}
