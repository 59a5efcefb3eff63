"""Live events."""

from rota.wire.documents.document import InstantText, View


class EventView(View, frozen=True):
    """An event of ``GET /api/v1/events``.

    Attributes:
        id: The value of ``Last-Event-ID`` with which the stream resumes after this event.
        type: ``job.created``, ``fire.skipped``, ``execution.running``, ``task.failed``,
            ``hook.delivered`` and so on; types that begin with ``stream.`` are about the stream
            itself.
        at: When it was decided.
        fire_at: The first of the fire times; only for types that begin with ``fire.``.
        count: The number of fire times with this outcome; only for types that begin with ``fire.``.
        job_id: The id of its job.
        job: The ``namespace/name`` of its job.
        execution_id: Its execution.
        task: Its task.
        attempt: The number of the task's newest attempt; null before the first.
        status: The new state of the execution or task.
        detail: The reason, where the type does not imply it.
        progress: The progress of the attempt in percent; only for ``task.progress``.
    """

    id: str
    type: str
    at: InstantText
    job_id: str | None = None
    job: str | None = None
    execution_id: str | None = None
    task: str | None = None
    attempt: int | None = None
    status: str | None = None
    detail: str = ""
    progress: int | None = None
    fire_at: InstantText | None = None
    count: int | None = None
