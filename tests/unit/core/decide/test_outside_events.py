"""Events from outside: each reaches the jobs with a trigger for it once, and starts them or not."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from rota.core.decide import outside_events
from rota.core.errors import Refused
from rota.core.model.event_trigger import LISTENERS_MAX, EventTrigger, channel_of
from rota.core.model.execution import Execution, Hold, Origin
from rota.core.model.job import PARAMETERS_MAX, Overlap, problems_of
from rota.core.timing.instants import DAY, Duration
from rota.core.vocabulary.changes import Occurred
from rota.core.vocabulary.commands import (
    Idempotency,
    PauseJob,
    ReceiveEvent,
    ReceiveMessage,
    SaveJob,
    payload_bytes,
)
from rota.core.vocabulary.decision import Received
from rota.core.vocabulary.effects import JobEvent
from unit.core.shard import Shard, job

PAID = "com.example.order.paid"
CHANNEL = channel_of("default", PAID)


def event(number: int = 1, **data: Any) -> ReceiveEvent:
    """Return event *number* of a shop."""
    members = {"id": str(number), "source": "/shop", "type": PAID, "data": data}
    identity = Idempotency(key=str(number), caller=CHANNEL, digest="")
    return ReceiveEvent(channel=CHANNEL, event=json.dumps(members), idempotency=identity)


def listening(
    when: str = "", *, name: str = "job", parameters: str = "", overlap: Overlap = Overlap.ALLOW
) -> Shard:
    """Return a shard with a job that the events start, and with the events' channel."""
    shard, triggers = Shard(), (EventTrigger(event=PAID, when=when),)
    shard.save(name=name, triggers=triggers, parameters=parameters, overlap=overlap)
    shard.deliver()
    return shard


def send(shard: Shard, command: ReceiveEvent) -> int:
    """Send an event, and return the number of jobs that it was sent to."""
    reply = shard.do(command)
    shard.deliver()
    assert isinstance(reply, Received)
    return reply.jobs


def started(shard: Shard) -> list[Execution]:
    return [one for one in shard.executions() if one.origin is Origin.EVENT]


def ignored(shard: Shard) -> list[str]:
    return [each.detail for each in shard.published_jobs if each.event is JobEvent.EVENT_IGNORED]


def test_an_event_starts_the_job_with_the_event_among_its_parameters() -> None:
    shard = listening(parameters='{"region": "eu"}')

    assert send(shard, event(sum=7)) == 1

    [execution] = started(shard)
    params = json.loads(execution.parameters)
    assert (params["region"], params["event"]["data"]) == ("eu", {"sum": 7})
    [note] = [each for each in shard.published_jobs if each.event is JobEvent.EVENT_STARTED]
    assert note.detail == f"1 of /shop: started {execution.id}"


def test_an_event_without_a_job_for_it_changes_nothing_but_is_known() -> None:
    shard = Shard()
    shard.save(triggers=(EventTrigger(event="other"),))
    shard.deliver()

    assert send(shard, event()) == 0
    shard.save(name="late", triggers=(EventTrigger(event=PAID),))
    shard.deliver()
    assert send(shard, event()) == 0

    assert started(shard) == []


def test_a_repetition_of_an_event_changes_nothing() -> None:
    shard = listening()

    assert [send(shard, event()), send(shard, event()), send(shard, event(2))] == [1, 1, 1]

    assert len(started(shard)) == 2


def test_each_job_with_a_trigger_gets_an_event_and_no_other() -> None:
    shard = listening(name="one")
    shard.save(name="two", triggers=(EventTrigger(event=PAID),))
    shard.save(name="none", triggers=(EventTrigger(event="com.example.order.sent"),))
    shard.save(name="elsewhere", namespace="n", triggers=(EventTrigger(event=PAID),))
    shard.deliver()

    assert send(shard, event()) == 2

    assert {each.job_name for each in started(shard)} == {"default/one", "default/two"}


def test_a_job_in_another_shard_gets_an_event() -> None:
    channel, home = Shard(), Shard()
    home.save(triggers=(EventTrigger(event=PAID),))
    home.deliver(channel)

    channel.do(event())
    channel.deliver(home)

    assert len(started(home)) == 1
    assert channel.state.outbox == {}


@pytest.mark.parametrize(
    ("when", "reason"),
    [
        ("event.data.sum > 100", "event.data.sum > 100 is not true"),
        ("params.least < event.data.sum", "params.least < event.data.sum is not true"),
        ("event.data.customer.name == 'x'", "when: "),
    ],
)
def test_an_event_for_which_the_condition_does_not_hold_is_ignored(when: str, reason: str) -> None:
    shard = listening(when, parameters='{"least": 50}')

    send(shard, event(sum=7))

    assert started(shard) == []
    [why] = ignored(shard)
    assert why.startswith(f"1 of /shop: {reason}")


def test_what_keeps_a_fire_from_starting_keeps_an_event_too() -> None:
    shard = listening(overlap=Overlap.SKIP)
    send(shard, event(1))
    send(shard, event(2))
    shard.finish(shard.live()[0])
    shard.do(PauseJob(job_id=shard.executions()[0].job_id))

    send(shard, event(3))

    assert len(started(shard)) == 1
    overlap, paused = ignored(shard)
    assert "the overlap policy is skip" in overlap
    assert paused == "3 of /shop: job default/job is paused"


def test_events_wait_by_the_overlap_policy() -> None:
    shard = listening(overlap=Overlap.QUEUE_ALL)

    for number in range(3):
        send(shard, event(number))

    assert [each.hold for each in started(shard)] == [Hold.NONE, Hold.OVERLAP, Hold.OVERLAP]


def test_a_job_without_the_trigger_gets_no_more_events() -> None:
    shard = listening()
    spec = shard.state.jobs[shard.state.names["default/job"]].spec

    shard.do(SaveJob(spec=replace(spec, triggers=()), may_replace=True))
    shard.deliver()

    assert send(shard, event()) == 0
    assert shard.state.dependents == {}


def test_parameters_that_are_too_long_with_the_event_start_nothing() -> None:
    shard = listening(parameters=json.dumps({"text": "x" * 80_000}))

    send(shard, event(text="y" * 60_000))

    assert started(shard) == []
    assert "140," in ignored(shard)[0]


def test_too_many_jobs_for_an_event_are_refused() -> None:
    shard = Shard()
    for number in range(LISTENERS_MAX + 1):
        shard.save(name=f"job-{number}", triggers=(EventTrigger(event=PAID),))
    shard.deliver()

    with pytest.raises(Refused, match="101 jobs have a trigger") as refused:
        shard.do(event())

    assert refused.value.code == "too_many_listeners"


def test_events_that_wait_are_bounded_by_their_bytes_in_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outside_events, "WAITING_BYTES_MAX", 10_000)
    channel, home = Shard(), Shard()
    home.save(triggers=(EventTrigger(event=PAID), EventTrigger(event="other")))
    home.deliver(channel)
    other = channel_of("default", "other")
    channel.do(event(1, text="x" * 6_000))

    with pytest.raises(Refused) as refused:
        channel.do(replace(event(2, text="x" * 6_000), channel=other))

    assert refused.value.code == "outbox_full"
    assert channel.reloaded().event_bytes == channel.state.event_bytes > 6_000
    channel.deliver(home)
    channel.do(event(3, text="x" * 6_000))


def test_an_event_is_known_for_a_day() -> None:
    shard = listening()
    send(shard, event())

    shard.pass_time(Duration(2 * DAY))
    send(shard, event())

    assert len(started(shard)) == 2


@pytest.mark.parametrize(
    ("trigger", "pointer"),
    [
        (EventTrigger(event="a/b"), "/triggers/0/event"),
        (EventTrigger(event=PAID, when="event."), "/triggers/0/when"),
        (EventTrigger(event=PAID, when="results.x"), "/triggers/0/when"),
    ],
)
def test_a_bad_trigger_is_refused(trigger: EventTrigger, pointer: str) -> None:
    [problem] = problems_of(job(triggers=(trigger,)))

    assert problem.pointer == pointer


def test_a_second_trigger_for_a_type_is_refused() -> None:
    triggers = (EventTrigger(event=PAID), EventTrigger(event=PAID, when="event.data"))

    [problem] = problems_of(job(triggers=triggers))

    assert (problem.pointer, "join the conditions" in problem.detail) == ("/triggers/1/event", True)


def test_the_bytes_of_an_event_count_where_entries_are_divided() -> None:
    command = event(text="x" * 1_000)
    message = Occurred(upstream=CHANNEL, dependent="default/job", event=command.event)

    assert payload_bytes(command) >= LISTENERS_MAX * 1_000
    assert payload_bytes(ReceiveMessage(message=message)) >= PARAMETERS_MAX
