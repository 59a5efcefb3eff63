"""What a client raises: one class for each thing a caller may want to do about it.

All are `RotaError`, and carry what the node said, as `RequestFailed.problem`.

>>> from rota.client import Client
>>> with Client() as rota:
...     try:
...         rota.create_job({"name": "late", "schedule": "61 * * * *", "command": "true"})
...     except Invalid as error:
...         for field in error.errors:
...             print(field.pointer, field.detail)
/schedule "61 * * * *" has minute 61; minutes go from 0 to 59
"""

from collections.abc import Sequence

from rota.core.errors import RotaError
from rota.wire.documents import ExecutionView, FieldProblem, ProblemView


class RequestFailed(RotaError):
    """A request did not lead to what it asked for.

    Attributes:
        problem: The node's own words, or the client's where no node answered (status 0).
        code: Stable word for programs, such as ``job_not_found``.
    """

    def __init__(self, problem: ProblemView) -> None:
        super().__init__(f"{problem.code}: {problem.detail}")
        self.problem = problem
        self.code = problem.code

    @property
    def detail(self) -> str:
        """The sentence for people."""
        return self.problem.detail

    @property
    def errors(self) -> Sequence[FieldProblem]:
        """Each field that is wrong, where the input was."""
        return self.problem.errors


class Invalid(RequestFailed):
    """The request can never work as it is."""


class NotAllowed(RequestFailed):
    """The node does not know who asks, or they may not."""


class NotFound(RequestFailed):
    """What was named is not there."""


class Conflict(RequestFailed):
    """The request contradicts what exists."""


class TooBusy(RequestFailed):
    """The node cannot take it now; the client has tried as often as it was told to.

    Attributes:
        retry_after_s: When the node expects to be able to, or None.
    """

    def __init__(self, problem: ProblemView, *, retry_after_s: float | None = None) -> None:
        super().__init__(problem)
        self.retry_after_s = retry_after_s


class NodeFailed(RequestFailed):
    """The node made a mistake, or answered what this client does not understand."""


class Unreachable(RequestFailed):
    """No answer came, or none that says what became of the request; names everyone asked.

    Attributes:
        may_have_arrived: False where no node knows anything of the request.
        idempotency_key: The key that the request carried, if any: with it, the same request may
            be sent again and does no more than once.
    """

    def __init__(self, detail: str, *, may_have_arrived: bool, idempotency_key: str = "") -> None:
        super().__init__(
            ProblemView(
                type="urn:rota:problem:unreachable",
                title="Unreachable",
                status=0,
                code="unreachable",
                detail=detail,
            )
        )
        self.may_have_arrived = may_have_arrived
        self.idempotency_key = idempotency_key


class OutputBroken(RotaError):
    """The connection was lost while output was followed, and it cannot be gone on with.

    What came before is right. Where it stood is no longer kept from the beginning, so that going on
    would repeat or leave out something; read all that is kept with `output`.
    """

    code = "output_broken"


class WaitTimedOut(RotaError):
    """Executions had not ended when the time for waiting was over; they go on.

    Attributes:
        executions: All that were waited for, as they were then.
    """

    code = "wait_timed_out"

    def __init__(self, executions: Sequence[ExecutionView], timeout_s: float) -> None:
        unfinished = [each for each in executions if each.finished_at is None]
        named = ", ".join(each.execution_id for each in unfinished[:3])
        more = f" and {len(unfinished) - 3} more" if len(unfinished) > 3 else ""
        super().__init__(f"after {timeout_s:g} s, not finished: {named}{more}")
        self.executions = executions
