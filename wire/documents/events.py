"""What happens, as it is told to those who follow it."""

from rota.wire.documents.document import InstantText, View


class EventView(View, frozen=True):
    """Something that happened, as ``GET /api/v1/events`` tells it.

    Attributes:
        id: Where to go on after it, as ``Last-Event-ID``.
        type: ``job.created``, ``execution.running``, ``task.failed`` and the like; ``stream.`` and
            a word for what the stream says of itself.
        at: When it was decided.
        job_id: The job that it is about.
        job: Its namespace and name.
        execution_id: The execution that it is about.
        task: The task that it is about.
        attempt: Number of the task's newest attempt, once it has one.
        status: The new state of the execution or task.
        detail: Why, in a few words, where that is not obvious.
        progress: How far the attempt is, in percent; only for ``task.progress``.
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
