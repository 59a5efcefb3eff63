"""Waits for events: an event is posted once, and all steps of its execution get its data."""

import pytest
from msgspec.structs import replace

from rota.core.decide.dispatch import pending
from rota.core.errors import Refused
from rota.core.model.attempt import RESULTS_BYTES_MAX
from rota.core.model.execution import TaskStatus
from rota.core.model.flow import (
    EVENT_BYTES_MAX,
    EVENTS_BYTES_MAX,
    EVENTS_MAX,
    Foreach,
    Repeat,
    WaitForEvent,
)
from rota.core.model.ids import ExecutionId
from rota.core.model.job import TaskSpec
from rota.core.timing.instants import SECOND, Duration
from rota.core.vocabulary.changes import Table
from rota.core.vocabulary.commands import Cancel, PostEvent, Wake
from rota.core.vocabulary.effects import SetTimer
from unit.core.decide.test_flows import F, Flow, K, S
from unit.core.shard import task

MINUTE_LONG = Duration(60 * SECOND)


def waiter(event: str = "paid", **fields: object) -> TaskSpec:
    """Return a task that waits for an event."""
    return replace(task("pay"), wait=WaitForEvent(event=event, **fields))  # type: ignore[arg-type]


def post(flow: Flow, name: str = "paid", data: bytes = b"7") -> None:
    """Post an event to the execution of *flow*."""
    flow.shard.do(PostEvent(execution_id=flow.id, name=name, data=data))


def test_a_task_waits_for_an_event_and_has_its_data_as_result() -> None:
    flow = Flow(waiter(), task("ship", "pay"))
    before = flow.tasks["pay"]

    post(flow)

    assert (before.status, before.reason) == (TaskStatus.WAITING, "waits for the event: paid")
    assert (flow.tasks["pay"].status, flow.tasks["pay"].result) == (S, b"7")
    assert flow.running() == ["ship"]


def test_an_event_is_kept_for_a_task_that_waits_later_also_by_a_new_primary() -> None:
    flow = Flow(task("order"), replace(waiter(), needs=("order",)))
    post(flow)
    flow.shard.state = flow.shard.reloaded()

    flow.end("order")

    assert (flow.tasks["pay"].status, flow.tasks["pay"].result) == (S, b"7")


def test_all_steps_that_wait_for_an_event_get_it() -> None:
    flow = Flow(replace(waiter(), loop=Foreach(items="[1, 2]")), task("next", "pay"))

    post(flow)

    assert [flow.tasks[f"pay[{n}]"].status for n in range(2)] == [S, S]
    assert flow.running() == ["next"]


def test_each_step_of_a_loop_may_wait_for_an_event_of_its_own() -> None:
    flow = Flow(replace(waiter("paid-{{ item }}"), loop=Foreach(items="[1, 2]")))

    post(flow, "paid-2")

    assert [flow.tasks[f"pay[{n}]"].status for n in range(2)] == [TaskStatus.WAITING, S]


def test_a_repetition_changes_nothing_and_other_data_are_refused() -> None:
    flow = Flow(waiter(), task("ship", "pay"))
    post(flow)
    before = flow.shard.reloaded()

    post(flow)

    assert flow.shard.reloaded() == before
    with pytest.raises(Refused, match=r"event_posted: .* 'paid' was posted at .* with other data"):
        post(flow, data=b"8")


@pytest.mark.parametrize(("is_skipped", "status"), [(False, F), (True, K)])
def test_a_wait_ends_after_its_timeout(is_skipped: bool, status: TaskStatus) -> None:
    flow = Flow(waiter(timeout=MINUTE_LONG, is_skipped_after=is_skipped), task("b"))

    flow.shard.pass_time(MINUTE_LONG)

    assert flow.statuses("pay") == [status]
    assert flow.tasks["pay"].reason == "no event within 1m"
    post(flow)  # It is kept, and ends nothing twice.
    assert flow.statuses("pay") == [status]


def test_a_new_primary_sets_the_timer_of_the_wait() -> None:
    flow = Flow(waiter(timeout=MINUTE_LONG))

    found = [each for each in pending(flow.shard.reloaded()) if isinstance(each, SetTimer)]

    assert [each.command for each in found] == [Wake(execution_id=flow.id, task="pay", number=1)]


def test_the_events_of_an_execution_end_with_it() -> None:
    flow = Flow(waiter(), replace(waiter("other"), name="other"))
    post(flow)

    flow.shard.do(Cancel(execution_id=flow.id))

    assert flow.shard.keys(Table.EVENT) == []
    with pytest.raises(Refused, match="execution_not_found"):
        post(flow, "other")


def test_the_number_of_events_is_limited() -> None:
    flow = Flow(waiter())
    for number in range(EVENTS_MAX - 1):
        post(flow, f"e{number}")

    with pytest.raises(Refused, match="too_many_events"):
        post(flow, "more")
    post(flow)
    assert flow.tasks["pay"].status is S


def test_the_results_of_an_execution_are_limited_also_with_events() -> None:
    steps = RESULTS_BYTES_MAX // EVENT_BYTES_MAX + 1
    items = str(list(range(steps)))
    flow = Flow(replace(waiter(), loop=Foreach(items=items, max_parallel=1_000, tolerated=steps)))

    post(flow, data=b'"%s"' % (b"x" * (EVENT_BYTES_MAX - 2)))

    assert flow.tasks[f"pay[{steps - 2}]"].status is S
    assert flow.tasks[f"pay[{steps - 1}]"].status is F


def test_a_name_that_is_rendered_is_checked() -> None:
    flow = Flow(replace(waiter("{{ item }}"), loop=Foreach(items='["a b"]')))

    assert flow.tasks["pay[0]"].reason == "waitForEvent: 'a b' is not a name"


def test_an_event_for_an_execution_that_does_not_exist_is_refused() -> None:
    flow = Flow(task("a"))
    flow.id = ExecutionId("0" * 16 + "-" + "0" * 14 + "-0000")

    with pytest.raises(Refused, match="execution_not_found"):
        post(flow)


def test_a_later_round_of_a_loop_gets_an_event_that_was_posted_before_its_delay_was_over() -> None:
    repeat = Repeat(until="index > 1", limit=2, delay=MINUTE_LONG)
    flow = Flow(replace(waiter(), loop=repeat))
    post(flow)

    flow.shard.pass_time(MINUTE_LONG)

    assert flow.statuses("pay", "pay#1", "pay#2") == [S, S, S]


def test_the_data_of_the_events_of_an_execution_are_limited() -> None:
    flow = Flow(waiter())
    large = b'"%s"' % (b"x" * (EVENT_BYTES_MAX - 2))
    for number in range(EVENTS_BYTES_MAX // EVENT_BYTES_MAX):
        post(flow, f"e{number}", data=large)

    with pytest.raises(Refused, match="too_many_events: the data"):
        post(flow)
