"""Errors of the client: one class for each possible reaction of a caller.

All classes are subclasses of `RotaError`; an error with which a node answered has the answer in
`RequestFailed.problem`.

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

from msgspec.structs import replace

from rota.core.errors import RotaError
from rota.wire.documents import ExecutionView, FieldProblem, ProblemView


class RequestFailed(RotaError):
    """A request failed.

    Attributes:
        problem: The error document of the node; if no node answered, one that the client made, with
            status 0.
        code: A stable word for programs, such as ``job_not_found``.
        method: The HTTP method of the request, such as ``POST``; empty if the error occurred before
            there was a request, for example with a body that JSON cannot express.
        path: The path of the request, percent-encoded, without the query; empty if *method* is.
        file: The file of the definition that the node refused; empty if it came from no file, or
            if the caller did not set it.
    """

    def __init__(self, problem: ProblemView) -> None:
        super().__init__(f"{problem.code}: {problem.detail}")
        self.problem = problem
        self.code = problem.code
        self.method = ""
        self.path = ""
        self.file = ""

    def name_request(self, method: str, path: str) -> None:
        """Set the request that failed."""
        self.method, self.path = method, path

    @property
    def request_id(self) -> str:
        """The id of the request in the log of the node that answered; empty if no node did."""
        return self.problem.request_id

    @property
    def detail(self) -> str:
        """The description of the error, for people."""
        return self.problem.detail

    @property
    def errors(self) -> Sequence[FieldProblem]:
        """The invalid fields of the input."""
        return self.problem.errors


class Invalid(RequestFailed):
    """The request is invalid."""


class NotAuthenticated(RequestFailed):
    """The node requires a token and got none, or does not accept the token.

    A token is given with *token* or *token_file* of the client, or in the file that
    ``$ROTA_TOKEN_FILE`` names.

    Attributes:
        sent: The description of the token that was sent, without its secret; empty if unknown.
    """

    def __init__(self, problem: ProblemView) -> None:
        super().__init__(problem)
        self.sent = ""

    def name_token(self, sent: str) -> None:
        """Set the description of the token that was sent."""
        self.sent = sent
        self.args = (f"{self.code}: {self.detail}",)

    @property
    def detail(self) -> str:
        """The description of the error, for people."""
        return f"{self.problem.detail} ({self.sent})" if self.sent else self.problem.detail


class NotAllowed(RequestFailed):
    """The caller may not do this: it has no role with the verb in the namespace."""


class NotFound(RequestFailed):
    """The job, execution, task or attempt does not exist."""


class Conflict(RequestFailed):
    """The request conflicts with existing data."""


class TooBusy(RequestFailed):
    """The node cannot accept the request now; all retries have failed.

    Attributes:
        retry_after_s: The number of seconds after which a retry may succeed; None if unknown.
    """

    def __init__(self, problem: ProblemView, *, retry_after_s: float | None = None) -> None:
        super().__init__(problem)
        self.retry_after_s = retry_after_s


class NodeFailed(RequestFailed):
    """The node failed, or this client cannot decode its answer."""


class Unreachable(RequestFailed):
    """No node answered, or the outcome is unknown; the message names all nodes that were tried.

    If a node answered that the outcome is unknown, code, status and request id are those of its
    answer, such as ``outcome_unknown`` and 503. Otherwise the code is ``unreachable``.

    Args:
        detail: The description of the error.
        may_have_arrived: See the attribute.
        idempotency_key: See the attribute.
        answer: The error document of a node; None if no node answered.
        is_refused: See the attribute.

    Attributes:
        may_have_arrived: Whether a node may have received the request.
        is_refused: Whether the machine refused the connection: it is there, and no program listens,
            as while a node restarts.
        idempotency_key: The key of the request; empty for none. With the key, the same request may
            be sent again and takes effect once.
    """

    def __init__(
        self,
        detail: str,
        *,
        may_have_arrived: bool,
        idempotency_key: str = "",
        answer: ProblemView | None = None,
        is_refused: bool = False,
    ) -> None:
        super().__init__(replace(answer or _NO_ANSWER, detail=detail))
        self.is_refused = is_refused
        self.may_have_arrived = may_have_arrived
        self.idempotency_key = idempotency_key


_NO_ANSWER = ProblemView(
    type="urn:rota:problem:unreachable",
    title="Unreachable",
    status=0,
    code="unreachable",
    detail="",
)


class InvalidToken(RotaError):
    """A token is malformed, or the file of a token cannot be read; nothing was sent."""

    code = "invalid_token"


class InvalidTls(RotaError):
    """A file of authorities, a certificate or its key cannot be used; nothing was sent."""

    code = "invalid_tls"


class OutputBroken(RotaError):
    """The connection was lost while output was followed, and the output cannot be continued.

    The output so far is correct. The node no longer stores its beginning, so a continuation would
    repeat or omit a part; read the stored output with `output`.
    """

    code = "output_broken"


class WaitTimedOut(RotaError):
    """Executions had not ended when the wait timed out; they continue.

    Attributes:
        executions: All executions of the wait, in their state at its end.
    """

    code = "wait_timed_out"

    def __init__(self, executions: Sequence[ExecutionView], timeout_s: float) -> None:
        unfinished = [each for each in executions if each.finished_at is None]
        named = ", ".join(each.execution_id for each in unfinished[:3])
        more = f" and {len(unfinished) - 3} more" if len(unfinished) > 3 else ""
        super().__init__(f"after {timeout_s:g} s, not finished: {named}{more}")
        self.executions = executions


class NotYetRunning(RotaError):
    """The execution of a one-off job did not exist when the wait for it timed out."""

    code = "not_yet_running"

    def __init__(self, name: str, job_id: str, timeout_s: float) -> None:
        super().__init__(
            f"after {timeout_s:g} s, not started: {name}; it runs later: rota jobs show {job_id}"
        )
