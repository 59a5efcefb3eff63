"""Roles: verbs under a name, besides the built-in roles."""

from rota.core.errors import Problem
from rota.core.quoting import in_quotes
from rota.node.access.access_table import ROLES_KIND as KIND
from rota.node.access.unknown_words import VERBS, unknown_verb
from rota.node.access.verbs import ROLES as BUILT_IN
from rota.node.access.verbs import Verb
from rota.node.api.kinds.document_kind import DocumentKind
from rota.node.api.requests.permissions import in_cluster
from rota.wire.documents import RoleBody


def problems_of(name: str, body: RoleBody) -> list[Problem]:
    """Return the errors of a role."""
    problems: list[Problem] = []
    if name in BUILT_IN:
        detail = f"{in_quotes(name)} is a built-in role and cannot be changed; choose another name"
        problems.append(Problem("/name", detail))
    return problems + [
        Problem(f"/verbs/{number}", unknown_verb(verb))
        for number, verb in enumerate(body.verbs)
        if verb not in VERBS
    ]


ROLES = DocumentKind(
    plural=KIND,
    singular="role",
    title="Roles",
    about="role",
    not_found_code="role_not_found",
    invalid_code="invalid_role",
    body=RoleBody,
    reading=in_cluster(Verb.ADMIN, Verb.AUDIT),
    writing=in_cluster(Verb.ADMIN),
    problems_of=problems_of,
)
