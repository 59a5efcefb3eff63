"""Errors of requests."""

from rota.wire.documents.document import View


class FieldProblem(View, frozen=True):
    """The error of one field.

    Attributes:
        pointer: A JSON pointer (RFC 6901) into the body, or ``/query/`` and a parameter's name.
        detail: What is wrong, and which values are valid.
    """

    pointer: str
    detail: str


class ProblemView(View, frozen=True):
    """The error of a request (RFC 9457, ``application/problem+json``).

    Attributes:
        type: ``urn:rota:problem:`` and the *code*.
        title: The HTTP status in words.
        status: The HTTP status.
        code: The code of the error, for programs; the meaning of a code never changes.
        detail: The description of the error, for people.
        request_id: The id of the request in the node's log.
        errors: The errors of single fields of the request.
    """

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str = ""
    errors: list[FieldProblem] = []
