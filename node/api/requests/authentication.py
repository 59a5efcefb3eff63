"""Authentication: the principal of each request."""

from rota.node.access.principal import ANONYMOUS, OPERATOR, Principal
from rota.node.api.requests.operations import Operation
from rota.node.api.requests.permissions import Scope
from rota.node.api.requests.request_context import RequestContext


def principal_of(request: RequestContext, operation: Operation) -> Principal:
    """Return the caller of *request*; `ANONYMOUS` if the operation is public.

    There is no authentication yet, so every caller counts as the operator.
    """
    del request
    return ANONYMOUS if operation.permission.scope is Scope.PUBLIC else OPERATOR
