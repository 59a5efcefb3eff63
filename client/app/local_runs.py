"""Runs of flows in this process: the functions one after the other, without nodes and waits."""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast

from rota.client.app.errors import InvalidFlow
from rota.client.app.graphs import ITEM, AnyCall, Graph, Param, Placement, Step, running
from rota.client.app.placeholders import Json, Placeholder, valued
from rota.client.task_functions import Skip
from rota.core.model.expressions import ExpressionError, Names, evaluate
from rota.core.model.trigger_rules import (
    TriggerRule,
    TriggerVerdict,
    UpstreamState,
    census_of,
    verdict,
)

ValueOf = Callable[[Placeholder], Json]


def run_here(
    graph: Graph, params: Mapping[str, Json], replaced: Mapping[str, Json]
) -> dict[str, Json]:
    """Return the results of the calls that ran, and were neither skipped nor failed.

    Args:
        graph: The flow.
        params: The parameters.
        replaced: Results of calls, which do not run.

    Raises:
        InvalidFlow, RuntimeError: As of `Flow.local`.
    """
    results: dict[str, Json] = {}
    states: dict[str, UpstreamState] = {}

    def value_of(placeholder: Placeholder) -> Json:
        if isinstance(placeholder, Param):
            return params[placeholder.name]
        return results.get(cast("AnyCall", placeholder).name)

    for call, needs in graph.ordered():
        names = {
            "params": params,
            "results": {each: results.get(each) for each in needs},
            "states": {each: states[each].value for each in needs},
        }
        seen = [_seen(graph.calls[each], states[each]) for each in needs]
        states[call.name] = UpstreamState.SKIPPED
        if not _starts(call.step.placement, seen, names):
            continue
        if call.name in replaced:
            state, result = UpstreamState.SUCCESS, replaced[call.name]
        else:
            state, result = _ended(call, value_of, names)
        states[call.name] = state
        if state is UpstreamState.SUCCESS:
            results[call.name] = result
    return results


def _seen(call: AnyCall, state: UpstreamState) -> UpstreamState:
    """Return the state of a needed call as the rules see it."""
    is_allowed = state is UpstreamState.FAILED and call.step.placement.allow_failure
    return UpstreamState.SUCCESS if is_allowed else state


def _starts(placement: Placement, needs: list[UpstreamState], names: Names) -> bool:
    rule = TriggerRule(placement.trigger_rule or "all_success")
    if needs and verdict(rule, census_of(needs)) is not TriggerVerdict.START:
        return False
    return not placement.when or bool(_evaluated(placement.when, names))


def _ended(call: AnyCall, value_of: ValueOf, names: Names) -> tuple[UpstreamState, Json]:
    """Return how the call has ended, and its result."""
    try:
        is_done, result = _run(call, value_of, names)
    except InvalidFlow:
        raise
    except Exception:
        if not call.step.placement.allow_failure:
            raise
        return UpstreamState.FAILED, None
    return UpstreamState.SUCCESS if is_done else UpstreamState.SKIPPED, result


def _run(call: AnyCall, value_of: ValueOf, names: Names) -> tuple[bool, Json]:
    """Return whether the call has not been skipped, and its result."""
    step = call.step
    if step.by_worker is None:
        raise InvalidFlow(
            f"{call.name} waits for something outside of the flow; give its result: "
            f"flow.local({{{call.name!r}: ...}})"
        )
    if step.placement.repeat is not None:
        return _run_rounds(call, value_of, names)
    if step.items is None:
        return _run_one(step, value_of)
    return _run_items(step, value_of)


def _run_items(step: Step, value_of: ValueOf) -> tuple[bool, Json]:
    """Run a call for each item; the result of one that failed, or was skipped, is None.

    More failures than are tolerated end it, as on a node, with the first exception.
    """
    done, results, failures = False, list[Json](), list[Exception]()
    for item in valued(step.items, value_of):
        try:
            is_done, result = _run_one(step, _with_item(item, value_of))
        except InvalidFlow:
            raise
        except Exception as error:
            failures.append(error)
            is_done, result = False, None
        done |= is_done
        results.append(result)
        if len(failures) > (step.placement.tolerated_failures or 0):
            raise failures[0]
    return done or bool(failures), results


def _with_item(item: Json, value_of: ValueOf) -> ValueOf:
    return lambda each: item if each is ITEM else value_of(each)


def _run_rounds(call: AnyCall, value_of: ValueOf, names: Names) -> tuple[bool, Json]:
    repeat = call.step.placement.repeat
    assert repeat is not None, call
    for index in range(1, repeat["limit"] + 1):
        is_done, last = _run_one(call.step, value_of)
        if not is_done or _evaluated(repeat["until"], {**names, "index": index, "last": last}):
            return is_done, last
    raise RuntimeError(
        f"{call.name} did not end in {repeat['limit']} rounds: {repeat['until']} is not true"
    )


def _evaluated(text: str, names: Names) -> Json:
    try:
        return evaluate(text, names)
    except ExpressionError as error:
        raise InvalidFlow(str(error)) from error
    except ModuleNotFoundError as error:
        raise InvalidFlow(
            f"{text!r} is evaluated by minijinja, which is not installed; install rota[node]"
        ) from error


def _run_one(step: Step, value_of: ValueOf) -> tuple[bool, Json]:
    assert step.by_worker is not None, step
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
