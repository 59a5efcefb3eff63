"""Why a request failed."""

from rota.wire.documents.document import View


class FieldProblem(View, frozen=True):
    """One field that is wrong: where, as a JSON pointer, and how.

    Attributes:
        pointer: Where: a JSON pointer (RFC 6901) into the body, or ``/query/`` and a parameter's
            name.
        detail: What is wrong with it, and what would be right.
    """

    pointer: str
    detail: str


class ProblemView(View, frozen=True):
    """Why a request failed (RFC 9457, ``application/problem+json``).

    Attributes:
        type: ``urn:rota:problem:`` and the *code*.
        title: The status in words.
        status: That of the answer.
        code: What it is, for programs; it does not change.
        detail: What it is, for people.
        request_id: Under which the node's log has it.
        errors: Each wrong field of the request.
    """

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str = ""
    errors: list[FieldProblem] = []
