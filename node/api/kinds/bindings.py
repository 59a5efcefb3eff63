"""Bindings: roles of subjects in namespaces.

An administrator of the cluster may write any binding. A principal with the verb ``grant`` may write
those that give no more than it has itself (`rota.node.access.delegation`).
"""

import re
from collections.abc import Sequence

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.errors import Problem, Refused
from rota.core.model.ids import NAME_FORM, NAME_RULE, is_name
from rota.core.model.shared_document import BINDINGS as KIND
from rota.core.model.shared_document import Definition
from rota.core.model.subjects import SUBJECT_RULE, is_subject
from rota.core.quoting import in_quotes
from rota.node.access.delegation import name_taken, why_not_delegable
from rota.node.access.unknown_words import unknown_role
from rota.node.access.verbs import EVERY, Verb
from rota.node.api.kinds.document_kind import DocumentKind, ObjectRules
from rota.node.api.requests.permissions import on_each, on_object
from rota.node.api.requests.request_context import RequestContext
from rota.wire.documents import BindingBody

_PATTERN = re.compile(rf"{NAME_FORM}|([A-Za-z0-9][A-Za-z0-9._-]{{0,126}})?\*", re.ASCII)


def problems_of(name: str, body: BindingBody) -> list[Problem]:
    """Return the errors of a binding."""
    del name
    problems = list(problems_of_namespaces(body.namespaces))
    if not is_subject(body.subject):
        detail = f"{in_quotes(body.subject)} is not a subject; {SUBJECT_RULE}"
        problems.append(Problem("/subject", detail))
    if not is_name(body.role):
        detail = f"{in_quotes(body.role)} is not the name of a role: {NAME_RULE}"
        problems.append(Problem("/role", detail))
    return problems


def problems_of_namespaces(namespaces: Sequence[str]) -> Sequence[Problem]:
    """Return the errors of the namespaces of a binding."""
    if not namespaces:
        return [Problem("/namespaces", "is empty; name a namespace, or * for the whole cluster")]
    return [
        Problem(
            f"/namespaces/{number}",
            f"{in_quotes(each)} is not a namespace; write a name, a beginning and * such as "
            "team-*, or * for the whole cluster",
        )
        for number, each in enumerate(namespaces)
        if not _PATTERN.fullmatch(each)
    ]


class BindingRules(ObjectRules[BindingBody]):
    """The rules of access to single bindings."""

    def authorize_read(
        self, request: RequestContext, name: str, definition: Definition | None, missing: Refused
    ) -> None:
        """Check that the caller may read a binding."""
        del name
        request.authorize_unless(None if _may_read(request, definition) else missing)

    def may_see(self, request: RequestContext, name: str, definition: Definition) -> bool:
        """Return True if a list for the caller has the binding."""
        del name
        return request.may_see_if(_may_read(request, definition))

    def authorize_change(
        self,
        request: RequestContext,
        before: Definition | None,
        after: BindingBody | None,
        missing: Refused,
    ) -> None:
        """Check that the caller may delegate the binding as it is and as it will be."""
        if not _may_read(request, before) and (before is not None or after is None):
            request.authorize_unless(missing if after is None else name_taken(request.principal))
            return
        old = () if before is None else (_binding(before),)
        new = () if after is None else (after,)
        refusals = (_why_not(request, each) for each in (*old, *new))
        request.authorize_unless(next(filter(None, refusals), None))


def problems_of_role(
    request: RequestContext, body: BindingBody, before: Definition | None
) -> Sequence[Problem]:
    """Return the error of a role that does not exist, unless the binding had it before.

    A binding of a role that was deleted can thus still be changed, for example to take away a
    namespace.
    """
    table = request.node.access.table
    if (
        not is_name(body.role)  # That is an error already.
        or table.verbs_of(body.role) is not None
        or (before is not None and before.get("role") == body.role)
    ):
        return []
    return [Problem("/role", unknown_role(body.role, table.own_roles()))]


def _may_read(request: RequestContext, definition: Definition | None) -> bool:
    """Return True if the caller may read all bindings, or has ``grant`` wherever this one counts.

    A deleted binding has no namespaces any more.
    """
    principal = request.principal
    if principal.may(Verb.ADMIN, EVERY) or principal.may(Verb.AUDIT, EVERY):
        return True
    namespaces = _binding(definition).namespaces if definition is not None else []
    return bool(namespaces) and all(
        principal.grants.may_in_all(Verb.GRANT, each) for each in namespaces
    )


def _why_not(request: RequestContext, body: BindingBody) -> Refused | None:
    table = request.node.access.table
    return why_not_delegable(request.principal, table, body.role, body.namespaces)


def _binding(definition: Definition) -> BindingBody:
    """Return the binding in a document; one that is not understood counts everywhere."""
    try:
        return msgspec.convert(definition, BindingBody)
    except UNDECODABLE:
        return BindingBody(subject="", role="", namespaces=[EVERY])


BINDINGS = DocumentKind(
    plural=KIND,
    singular="binding",
    title="Bindings",
    about="binding",
    not_found_code="binding_not_found",
    invalid_code="invalid_binding",
    body=BindingBody,
    listing=on_each(Verb.GRANT),
    reading=on_object(Verb.GRANT),
    writing=on_object(Verb.GRANT),
    problems_of=problems_of,
    dangling=problems_of_role,
    rules=BindingRules(),
)
