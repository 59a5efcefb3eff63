"""Triggers: requests for one execution or several."""

from rota.wire.documents.document import Body, Json, LineText, View
from rota.wire.documents.problems import ProblemView


class TriggerBody(Body, frozen=True):
    """The trigger of a job.

    Attributes:
        parameters: Parameters that replace those of the job; at most 120,000 bytes of JSON.
        fire_time: The time for which the execution works, which its tasks get as
            ``ROTA_FIRE_TIME``; null for the instant of the request. It starts at once in any case.
    """

    parameters: Json = None
    fire_time: LineText | None = None


class TriggeredView(View, frozen=True):
    """The execution that a trigger created.

    Attributes:
        execution_id: The id of the execution.
        job_id: The id of its job.
        status: Always ``queued``.
    """

    execution_id: str
    job_id: str
    status: str


class TriggerItem(Body, frozen=True):
    """One trigger of a batch.

    Attributes:
        job: The job: its id, its name in the namespace ``default``, or ``namespace/name``.
        parameters: Parameters that replace those of the job.
        fire_time: As in `TriggerBody`.
        idempotency_key: The idempotency key of this item alone; as the header ``Idempotency-Key``.
    """

    job: LineText
    parameters: Json = None
    fire_time: LineText | None = None
    idempotency_key: LineText | None = None


class TriggerManyBody(Body, frozen=True):
    """A batch of triggers.

    Attributes:
        items: The triggers, 1 to 1,000; each succeeds or fails independently.
    """

    items: list[TriggerItem]


class TriggeredItem(View, frozen=True):
    """The result of one item of `TriggerManyBody`: an execution or an error.

    Attributes:
        execution_id: The id of the execution; null after an error.
        error: The error; null on success.
    """

    execution_id: str | None = None
    error: ProblemView | None = None


class TriggeredManyView(View, frozen=True):
    """The results of `TriggerManyBody`.

    Attributes:
        items: The results, in the order of the items.
    """

    items: list[TriggeredItem]
