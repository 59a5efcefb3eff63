"""Flows: jobs whose tasks are the functions of an app, with their order."""

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from importlib import import_module
from itertools import count, takewhile
from pickle import PicklingError
from types import ModuleType, TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVar, Unpack, cast, overload

import msgspec

from rota.client.app import waits
from rota.client.app.errors import FlowNotDeployed, InvalidArgument, InvalidFlow
from rota.client.app.graphs import (
    AnyCall,
    Body,
    Call,
    Conditions,
    Graph,
    Param,
    Placement,
    chain,
    current,
    defining,
)
from rota.client.app.handles import Handle, Kept
from rota.client.app.local_runs import run_here
from rota.client.app.placeholders import Json, placeholders_in
from rota.client.app.signatures import checked_json
from rota.client.app.tasks import Host, OfOneItem, Task
from rota.client.errors import NotFound
from rota.client.given_times import GivenDuration, as_text
from rota.core.model.ids import item_name, round_name
from rota.core.near_names import did_you_mean
from rota.wire.documents import ApprovalBody, ExecutionView, JobBody, TaskView, WaitForEventBody

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")

AnyTask = Task[..., Any, Any]  # Any: a flow calls tasks of all types.

_OF_THE_FLOW = frozenset(
    {"name", "tasks", "command", "python", "type", "container", "stdin", "retries", "timeout"}
    | {"parameters_schema"}
)
"""The fields of a job that a flow sets itself, or that its tasks have."""
_OPTIONS = frozenset(each.name for each in msgspec.structs.fields(JobBody)) - _OF_THE_FLOW
_CAMEL_NAMES = {each.name: each.encode_name for each in msgspec.structs.fields(JobBody)}


class Params:
    """The parameters of a flow as placeholders: ``flow.params.day``."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __getattr__(self, name: str) -> Any:  # Any: fits a parameter of any type.
        """Return the parameter *name*."""
        if name.startswith("_"):
            raise AttributeError(name)
        return self._graph.param(name)


class Results(Mapping[str, Any]):
    """The results of an execution of a flow, by call or by its name; skipped calls have none."""

    def __init__(self, results: Mapping[str, Any]) -> None:
        self._results = results

    def __repr__(self) -> str:
        return f"Results({self._results!r})"

    @overload
    def __getitem__(self, call: Call[T], /) -> T: ...

    @overload
    def __getitem__(self, call: str, /) -> Any: ...  # Any: the name does not say the type.

    def __getitem__(self, call: str | AnyCall, /) -> Any:
        """Return the result of *call*."""
        return self._results[call.name if isinstance(call, Call) else call]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)


class Flow:
    """A job whose tasks are calls of functions, made by `App.flow` and defined in a ``with``.

    Attributes:
        name: The name of its job.
        place: The file and the line of its definition.
        params: Its parameters: ``flow.params.day`` is an argument of a call.
    """

    def __init__(
        self,
        host: Host,
        name: str,
        *,
        place: str,
        module: str,
        parameters: Mapping[str, Any],
        options: Mapping[str, Json],
        register: Callable[["Flow"], None],
    ) -> None:
        self.name = name
        self.place = place
        self._module = module
        self._host = host
        self._graph = Graph(name)
        self._defaults = {each: checked_json(each, value) for each, value in parameters.items()}
        self._options = _checked_options(name, options)
        self._register = register
        self.params = Params(self._graph)
        self._graph.params |= {each: Param(self._graph, each) for each in self._defaults}

    def __repr__(self) -> str:
        return f"Flow({self.name!r})"

    def __enter__(self) -> Self:
        """Begin the definition: calls of tasks are added to the flow until the end of the with.

        Raises:
            InvalidFlow: It is in the definition of another flow, or was defined already.
        """
        outer = current()
        if outer is not None:
            raise InvalidFlow(
                f"the flow {self.name} is in the 'with' of the flow {outer.name}; define one after "
                "the other"
            )
        if self._graph.calls:
            raise InvalidFlow(f"the flow {self.name} is defined already; make a new one")
        self._definition = defining(self._graph)
        self._definition.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._definition.__exit__(None, None, None)
        if error is None:
            self._check()
            self._register(self)

    def add(self, task: Task[P, Any, T], *args: P.args, **kwargs: P.kwargs) -> Call[T]:
        """Add a call of *task*, as ``task(...)`` does, with a type that can be ordered.

        Raises:
            InvalidArgument: The function does not take the arguments.
            InvalidFlow: An argument is of another flow, or the name is taken.
        """
        return self._graph.add(task.step(args, kwargs))

    def map(self, task: OfOneItem[A, T], items: Iterable[A]) -> Call[list[T]]:
        """Add a call of *task* for each of *items*, as ``task.map(items)`` does.

        Raises:
            InvalidArgument, InvalidFlow: As of `add`.
        """
        one = cast("AnyTask", task)  # OfOneItem describes the parameters alone.
        return self._graph.add(one.mapped_step(items))

    def approval(
        self,
        name: str,
        *,
        message: str = "",
        form: Mapping[str, Json] | None = None,
        timeout: GivenDuration = "0s",
        on_reject: Literal["fail", "skip"] = "fail",
        by: Sequence[str] = (),
        **conditions: Unpack[Conditions],
    ) -> Call[Any]:  # Any: the form is of any type.
        """Add a wait for a person who approves or rejects; the result is what was filled in.

        Args:
            name: The name of its task.
            message: What is to be approved; a template: ``Ship {{ params.version }}?``.
            form: The JSON Schema of what the person fills in; None for nothing.
            timeout: The time after which it fails without an answer; 0 for no limit.
            on_reject: What a rejection does.
            by: The subjects that may answer, such as ``group:sso/release``; empty for all callers
                with the verb ``run``.
            conditions: As of `Task.options`.

        Raises:
            InvalidArgument: An argument has another type.
            InvalidFlow: The name is invalid or taken, or a text names no earlier call.
        """
        _check(_is_mapping(form), "form", form, "a JSON Schema, as a dict")
        _check(not isinstance(by, str), "by", by, "a list of subjects")
        _check(on_reject in ("fail", "skip"), "on_reject", on_reject, '"fail" or "skip"')
        body = ApprovalBody(
            message=message,
            form=None if form is None else dict(form),
            timeout=as_text(timeout),
            on_reject=on_reject,
            by=[*by],
        )
        return self._graph.add(waits.approval(body, Placement(name=name, **conditions)))

    def wait_for_event(
        self,
        event: str,
        *,
        timeout: GivenDuration = "0s",
        on_timeout: Literal["fail", "skip"] = "fail",
        name: str | None = None,
        **conditions: Unpack[Conditions],
    ) -> Call[Any]:  # Any: the data are of any type.
        """Add a wait for an event that is posted to the execution; the result is its data.

        Args:
            event: The name of the event; a template: ``paid-{{ params.order }}``.
            timeout: The time after which the wait ends without the event; 0 for no limit.
            on_timeout: What the end of that time does.
            name: The name of its task; None for that of the event.
            conditions: As of `Task.options`.

        Raises:
            InvalidArgument, InvalidFlow: As of `approval`.
        """
        body = WaitForEventBody(event=event, timeout=as_text(timeout), on_timeout=on_timeout)
        return self._graph.add(waits.event(body, Placement(name=name, **conditions)))

    def sleep(
        self, duration: GivenDuration, *, name: str | None = None, **conditions: Unpack[Conditions]
    ) -> Call[None]:
        """Add a wait for a time, in seconds or as text such as ``10m``.

        Args:
            duration: The time.
            name: The name of its task; None for ``sleep``.
            conditions: As of `Task.options`.

        Raises:
            InvalidFlow: As of `approval`.
        """
        return self._graph.add(waits.sleep(as_text(duration), Placement(name=name, **conditions)))

    def run_job(
        self,
        job: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        name: str | None = None,
        **conditions: Unpack[Conditions],
    ) -> Call[dict[str, Any]]:
        """Add an execution of another job, and wait for its end.

        The result has ``executionId``, ``status`` and ``results``, those of the last tasks by name.

        Args:
            job: The name of the job, which is in the namespace of this one.
            parameters: Parameters in place of those of the job, which may be or contain calls and
                parameters of this flow; None for those of the job.
            name: The name of its task; None for that of the job.
            conditions: As of `Task.options`.

        Raises:
            InvalidArgument, InvalidFlow: As of `approval`.
        """
        _check(_is_mapping(parameters), "parameters", parameters, "a dict")
        placement = Placement(name=name, **conditions)
        return self._graph.add(waits.run_of(job, parameters, placement))

    def chain(self, *calls: object) -> None:
        """Order calls as ``>>`` does, also of types that have no ``>>`` for type checkers.

        Args:
            calls: Calls and lists of calls, each of which starts after the one before.

        Raises:
            InvalidFlow: One is no call of this flow, or the order is a circle.
        """
        chain(*calls)

    def job(self) -> Body:
        """Return the job.

        Raises:
            InvalidTask: A node cannot import one of the functions.
        """
        body: Body = {"name": self.name, "labels": {"app": self._host.name}}
        body |= {name: value for name, value in self._options.items() if name != "labels"}
        body["labels"] |= self._options.get("labels", {})
        if self._graph.params:
            body["parametersSchema"] = self._schema()
        tasks = self._graph.calls.items()
        body["tasks"] = [{"name": name, **self._task(call)} for name, call in tasks]
        return body

    def delay(self, **params: Any) -> Handle[Results]:
        """Start an execution of the job of this flow, which `rota deploy` has saved.

        Args:
            params: The parameters, as their functions take them; those with defaults may be left
                out.

        Raises:
            InvalidArgument: A parameter is unknown, missing, or of another type.
            FlowNotDeployed: The nodes do not have the job.
            Invalid, NotAllowed, TooBusy, Unreachable: As of `Client`.
        """
        given = self._encoded(params)
        client, namespace = self._host.client, self._options.get("namespace", "default")
        try:
            made = client.trigger(self.name, namespace=namespace, parameters=given or None)
        except NotFound as error:
            raise FlowNotDeployed(
                f"the nodes have no job {namespace}/{self.name}; save it with: rota deploy "
                "MODULE:APP, or name its namespace: app.flow(..., namespace=...)"
            ) from error
        return self.handle(made.execution_id)

    def handle(self, id: str) -> Handle[Results]:  # noqa: A002 - that of a handle
        """Return the handle of an execution of the job of this flow, by its id."""
        return Handle(self._host.client, id, self._results, lambda: self._kept(id))

    def _kept(self, id: str) -> Kept:  # noqa: A002 - as above
        if _flow_in(sys.modules.get(self._module), self.name) is not self:
            raise PicklingError(
                f"the flow {self.name} is no variable of the module {self._module}, where another "
                "process would look for it; pass the id of the handle, and use flow.handle(id)"
            )
        return _handle_of, (self._module, self.name, id)

    async def adelay(self, **params: Any) -> Handle[Results]:
        """Start an execution as `delay` does, without blocking the event loop."""
        return await asyncio.to_thread(self.delay, **params)

    def local(self, results: Mapping[str, Any] | None = None, /, **params: Any) -> Results:
        """Run the functions here, one after the other, and return their results.

        Arguments and results pass through JSON as between nodes. The exception of a function ends
        the flow, without retries, unless its failure is allowed; its `skip` skips the call, and the
        others follow their rules and conditions. Nothing waits.

        Args:
            results: The results of calls that do not run here, by name: those of approvals, events
                and other jobs, and of functions that a test replaces.
            params: As of `delay`.

        Raises:
            InvalidArgument: As of `delay`.
            InvalidFlow: A function is a coroutine function, and an event loop runs here; the result
                of a wait is missing; or an expression has no value here.
            RuntimeError: A call with `repeat` did not end in its rounds.
        """
        given = {**self._defaults, **self._encoded(params)}
        calls = self._graph.calls
        for name in results or {}:
            if name not in calls:
                hint = did_you_mean(name, calls) or f"it has {', '.join(calls)}"
                raise InvalidFlow(f"the flow {self.name} has no call {name!r}; {hint}")
        replaced = {name: checked_json(name, value) for name, value in (results or {}).items()}
        found = run_here(self._graph, given, replaced)
        return Results({name: calls[name].step.result(each) for name, each in found.items()})

    def _task(self, call: AnyCall) -> Body:
        needs = self._graph.needs[call.name]
        return {**({"needs": list(needs)} if needs else {}), **call.step.body()}

    def _schema(self) -> Body:
        """Return the JSON Schema of the parameters; a default is not repeated by a trigger."""
        properties: Body = {}
        for name, param in self._graph.params.items():
            properties[name] = _schema_of(param)
            if name in self._defaults:
                properties[name]["default"] = self._defaults[name]
        schema = {"properties": properties, "additionalProperties": False}
        missing = self._without_defaults()
        return {**schema, "required": missing} if missing else schema

    def _without_defaults(self) -> list[str]:
        return [name for name in self._graph.params if name not in self._defaults]

    def _encoded(self, params: Mapping[str, Any]) -> dict[str, Json]:
        known = self._graph.params
        for name in params:
            if name not in known:
                hint = did_you_mean(name, known) or f"it has {', '.join(known) or 'none'}"
                raise InvalidArgument(f"the flow {self.name} has no parameter {name!r}; {hint}")
        missing = [name for name in self._without_defaults() if name not in params]
        if missing:
            raise InvalidArgument(
                f"the flow {self.name} needs the parameter {missing[0]!r}; give it here, or a "
                "default in parameters={...} of the flow"
            )
        return {name: checked_json(name, value, known[name].kind) for name, value in params.items()}

    def _check(self) -> None:
        """Check the complete definition.

        Raises:
            InvalidFlow: It has no call, or its schedule cannot give a parameter.
            InvalidArgument: A default has not the type of its parameter.
        """
        if not self._graph.calls:
            raise InvalidFlow(
                f"the flow {self.name} has no calls; call tasks of the app in its 'with'"
            )
        for name, value in self._defaults.items():
            checked_json(name, value, self._graph.params[name].kind)
        missing = self._without_defaults()
        if missing and ("schedule" in self._options or "schedules" in self._options):
            raise InvalidFlow(
                f"the flow {self.name} has a schedule, which gives no parameters; give "
                f"{missing[0]!r} a default: parameters={{{missing[0]!r}: ...}}"
            )

    def _results(self, ended: ExecutionView) -> Results:
        tasks = ended.tasks or {}
        results: dict[str, Any] = {}
        for name, call in self._graph.calls.items():
            if name in tasks and tasks[name].status == "success":
                results[name] = call.step.result(_result_in(tasks, call))
        return Results(results)


def _is_mapping(value: object) -> bool:
    return value is None or isinstance(value, Mapping)


def _check(is_valid: bool, name: str, value: object, needed: str) -> None:
    """Check the value of an argument, whose type no checker may have seen.

    Raises:
        InvalidArgument: It is not valid.
    """
    if not is_valid:
        raise InvalidArgument(f"the argument {name!r} is {value!r}; give {needed}")


def _result_in(tasks: Mapping[str, TaskView], call: AnyCall) -> Json:
    if call.step.placement.repeat is not None:
        rounds = _steps_in(tasks, lambda number: round_name(call.name, number + 1))
        return _result_of(rounds[-1]) if rounds else None
    if call.step.items is not None:
        steps = _steps_in(tasks, lambda number: item_name(call.name, number))
        return [_result_of(each) for each in steps]
    return _result_of(tasks[call.name])


def _steps_in(tasks: Mapping[str, TaskView], name_of: Callable[[int], str]) -> list[TaskView]:
    return [tasks[name] for name in takewhile(tasks.__contains__, map(name_of, count()))]


def _result_of(task: TaskView) -> Json:
    return task.attempts[-1].result if task.attempts else task.result


def _schema_of(param: Param) -> Body:
    """Return the JSON Schema of a parameter; empty if its type is not one of the plain ones."""
    try:
        schema = msgspec.json.schema(param.kind)
    except (TypeError, RuntimeError):
        return {}
    return {} if "$ref" in schema or "$defs" in schema else schema


def _checked_options(flow: str, options: Mapping[str, Json]) -> Body:
    """Return the fields of a job that *options* gives, with their names in JSON.

    Raises:
        InvalidFlow: One is no field of a job of tasks.
    """
    for each in placeholders_in(dict(options)):
        raise InvalidFlow(f"{each!r} has no value while the flow {flow} is defined")
    for name in options:
        if name not in _OPTIONS:
            hint = did_you_mean(name, _OPTIONS) or "see docs/reference/jobs.md"
            raise InvalidFlow(f"the flow {flow} cannot have the option {name!r}; {hint}")
    given = {
        name: as_text(value) if isinstance(value, timedelta) else value
        for name, value in options.items()
    }
    return {_CAMEL_NAMES[name]: value for name, value in given.items() if value is not None}


def _flow_in(module: ModuleType | None, name: str) -> Flow | None:
    values = vars(module).values() if module else ()
    return next((each for each in values if isinstance(each, Flow) and each.name == name), None)


def _handle_of(module: str, name: str, id: str) -> Handle[Results]:  # noqa: A002 - as `Flow.handle`
    """Return a handle that was pickled in another process."""
    flow = _flow_in(import_module(module), name)
    if flow is None:
        raise InvalidFlow(f"the module {module} has no flow {name} any more")
    return flow.handle(id)
