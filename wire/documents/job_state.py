"""Documents of the state of a job."""

from rota.wire.documents.changes import AuthorView
from rota.wire.documents.document import Body, Json, View, Word


class StateBody(Body, frozen=True):
    """A value of the state of a job.

    Attributes:
        value: The value, at most 64 KiB as JSON.
        only_forward: Whether the value is refused if it is smaller than the one before: a number,
            or a text, such as a time.
        execution_id: The execution of the job with whose end the value ends; null for none. With
            ``If-None-Match: *`` the value is a lock.
        task: The task or step of that execution with whose end the value ends; null for none.
    """

    value: Json
    only_forward: bool = False
    execution_id: Word | None = None
    task: Word | None = None


class StateView(View, frozen=True):
    """A value of the state of a job.

    Attributes:
        key: Its name.
        value: The value.
        revision: The number of its changes, from 1; also the ``ETag``.
        changed_at: When it was changed last.
        changed_by: Who changed it last; null if that is unknown.
        execution_id: The execution with whose end it ends; null for none.
        task: The task with whose end it ends; null for none.
    """

    key: str
    value: Json
    revision: int
    changed_at: str
    changed_by: AuthorView | None = None
    execution_id: str | None = None
    task: str | None = None


class StateList(View, frozen=True):
    """The state of a job, by key.

    Attributes:
        items: The values.
    """

    items: list[StateView]
