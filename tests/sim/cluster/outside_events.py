"""Events from outside that users send, and the jobs that they start."""

from dataclasses import dataclass

import msgspec

from rota.core.model.event_trigger import channel_of
from rota.core.model.job import JobSpec
from rota.core.vocabulary.commands import Idempotency, ReceiveEvent
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.documents import JobBody, TriggerOnBody

EVENT_TYPE = "sold"
CHANNEL = channel_of("default", EVENT_TYPE)


@dataclass(frozen=True)
class SentEvent:
    """An event that a user sent.

    Attributes:
        id: Its id.
        jobs: The number of jobs that it was sent to, by its answer; None without an answer.
    """

    id: str
    jobs: int | None


def event_command(event_id: str) -> ReceiveEvent:
    """Return the command of an event; all tries of a client are repetitions."""
    event = {"id": event_id, "source": "/sim", "type": EVENT_TYPE, "data": 7}
    identity = Idempotency(key=event_id, caller=CHANNEL, digest="")
    return ReceiveEvent(
        channel=CHANNEL, event=msgspec.json.encode(event).decode(), idempotency=identity
    )


def listener(name: str) -> JobSpec:
    """Return a job that each event starts, beside its other executions."""
    triggers = [TriggerOnBody(event=EVENT_TYPE, when="event.data > 3")]
    return job_spec(
        JobBody(name=name, type="scripted", parameters={"sleepMs": 50}, triggers=triggers)
    )
