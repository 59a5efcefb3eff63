"""Flows: jobs whose tasks are the functions of an app, with their order."""

import asyncio
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast, overload

import msgspec

from rota.client.app.errors import FlowNotDeployed, InvalidArgument, InvalidFlow
from rota.client.app.graphs import (
    AnyCall,
    Body,
    Call,
    Graph,
    Param,
    Step,
    chain,
    current,
    defining,
    running,
)
from rota.client.app.handles import Handle
from rota.client.app.placeholders import Json, Placeholder, placeholders_in, valued
from rota.client.app.signatures import checked_json
from rota.client.app.tasks import Host, OfOneItem, Task
from rota.client.errors import NotFound
from rota.client.task_functions import Skip
from rota.core.model.ids import item_name
from rota.core.model.trigger_rules import (
    TriggerRule,
    TriggerVerdict,
    UpstreamState,
    census_of,
    verdict,
)
from rota.core.near_names import did_you_mean
from rota.wire.documents import ExecutionView, JobBody, TaskView

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
        parameters: Mapping[str, Any],
        options: Mapping[str, Json],
        register: Callable[["Flow"], None],
    ) -> None:
        self.name = name
        self.place = place
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
        return Handle(client, made.execution_id, self._results, made.execution_id)

    async def adelay(self, **params: Any) -> Handle[Results]:
        """Start an execution as `delay` does, without blocking the event loop."""
        return await asyncio.to_thread(self.delay, **params)

    def local(self, **params: Any) -> Results:
        """Run the functions here, one after the other, and return their results.

        Arguments and results pass through JSON as between nodes. The exception of a function ends
        the flow, without retries; its `skip` skips the call, and the others follow their rules.

        Raises:
            InvalidArgument: As of `delay`.
            InvalidFlow: A function is a coroutine function, and an event loop runs here.
        """
        given = {**self._defaults, **self._encoded(params)}
        results: dict[str, Json] = {}
        states: dict[str, UpstreamState] = {}

        def value_of(placeholder: Placeholder) -> Json:
            if isinstance(placeholder, Param):
                return given[placeholder.name]
            return results.get(cast("AnyCall", placeholder).name)

        for call, needs in self._graph.ordered():
            step = call.step
            rule = TriggerRule(step.placement.trigger_rule or "all_success")
            census = census_of(states[each] for each in needs)
            states[call.name] = UpstreamState.SKIPPED
            if needs and verdict(rule, census) is not TriggerVerdict.START:
                continue
            is_done, result = _run(step, value_of)
            if is_done:
                states[call.name] = UpstreamState.SUCCESS
                results[call.name] = result
        return Results(
            {name: self._graph.calls[name].step.result(each) for name, each in results.items()}
        )

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
                step = call.step
                results[name] = step.result(_result_in(tasks, name, is_loop=step.items is not None))
        return Results(results)


def _run(step: Step, value_of: Callable[[Placeholder], Json]) -> tuple[bool, Json]:
    """Return whether the call has not been skipped, and its result."""
    if step.items is None:
        return _run_one(step, value_of)
    ran = [_run_one(step, _always(item)) for item in valued(step.items, value_of)]
    return any(is_done for is_done, _ in ran), [result for _, result in ran]


def _always(item: Json) -> Callable[[Placeholder], Json]:
    """Return the values of the arguments of a `map`: the item is the only placeholder."""
    return lambda _: item


def _run_one(step: Step, value_of: Callable[[Placeholder], Json]) -> tuple[bool, Json]:
    args, kwargs = valued(step.positional, value_of), valued(step.named, value_of)
    _check_loop(step.by_worker)
    try:
        with running():
            result = step.by_worker(*args, **kwargs)
            if inspect.iscoroutine(result):
                result = asyncio.run(result)
    except Skip:
        return False, None
    return True, result


def _check_loop(function: Callable[..., Any]) -> None:
    """Check that no event loop runs here, if *function* needs one.

    Raises:
        InvalidFlow: One runs.
    """
    if not inspect.iscoroutinefunction(inspect.unwrap(function)):
        return
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise InvalidFlow(
            "local() starts an event loop for an async function, but one runs here already; write "
            "await asyncio.to_thread(flow.local, ...)"
        )


def _result_in(tasks: Mapping[str, TaskView], name: str, *, is_loop: bool) -> Json:
    if not is_loop:
        return tasks[name].attempts[-1].result
    results: list[Json] = []
    while (step := tasks.get(item_name(name, len(results)))) is not None:
        results.append(step.attempts[-1].result if step.attempts else None)
    return results


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
    return {_CAMEL_NAMES[name]: value for name, value in options.items() if value is not None}
