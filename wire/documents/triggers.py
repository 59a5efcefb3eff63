"""Executions that are asked for, one or many."""

from rota.wire.documents.document import Body, Json, LineText, View
from rota.wire.documents.problems import ProblemView


class TriggerBody(Body, frozen=True):
    """An execution asked for; *parameters* override the job's.

    Attributes:
        parameters: In place of the job's, whole; at most 120,000 bytes of JSON.
    """

    parameters: Json = None


class TriggeredView(View, frozen=True):
    """The execution that a trigger made.

    Attributes:
        execution_id: The execution.
        job_id: Its job.
        status: Always ``queued``.
    """

    execution_id: str
    job_id: str
    status: str


class TriggerItem(Body, frozen=True):
    """One of many executions asked for together.

    Attributes:
        job: Its id, its name in ``default``, or ``namespace/name``.
        parameters: In place of the job's, whole.
        idempotency_key: As the header ``Idempotency-Key``, for this item alone.
    """

    job: LineText
    parameters: Json = None
    idempotency_key: LineText | None = None


class TriggerManyBody(Body, frozen=True):
    """Executions asked for together.

    Attributes:
        items: The executions, 1 to 1,000; each is looked at by itself.
    """

    items: list[TriggerItem]


class TriggeredItem(View, frozen=True):
    """One result of `TriggerManyBody`, in its order: an execution, or why there is none.

    Attributes:
        execution_id: Null if there is none.
        error: Why there is none.
    """

    execution_id: str | None = None
    error: ProblemView | None = None


class TriggeredManyView(View, frozen=True):
    """The results of `TriggerManyBody`.

    Attributes:
        items: One for each item of the body, in its place.
    """

    items: list[TriggeredItem]
