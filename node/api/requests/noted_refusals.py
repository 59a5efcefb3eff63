"""The refusals of a request in the audit log, with its caller, operation and object."""

from rota.node.api.requests.authors import author_of
from rota.node.api.requests.request_context import RequestContext


def note_refusals(request: RequestContext) -> None:
    """Count and log the refusals of *request*, which was answered."""
    match = request.http.match_info
    resource = match.route.resource
    operation = f"{request.http.method} {resource.canonical if resource else ''}".rstrip()
    of, caller = "/".join(match.values()), author_of(request)
    for each in request.refusals:
        request.node.access.refused.note(each, caller, operation, of)
