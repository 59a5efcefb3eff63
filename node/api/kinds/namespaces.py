"""Namespaces: what they are for, and what tasks in them may do."""

from collections.abc import Sequence

from rota.core.errors import Problem
from rota.core.quoting import in_quotes
from rota.node.access.verbs import Verb
from rota.node.api.kinds.document_kind import DocumentKind
from rota.node.api.requests.permissions import in_cluster
from rota.node.namespaces.namespaces import NAMESPACES as KIND
from rota.node.namespaces.policy import NETWORKS, PROFILES, WRITABLE
from rota.wire.documents import NamespaceBody, PolicyBody


def problems_of(name: str, body: NamespaceBody) -> list[Problem]:
    """Return the errors of a namespace."""
    del name
    return list(_problems_of_policy(body.policy)) if body.policy else []


def _problems_of_policy(policy: PolicyBody) -> Sequence[Problem]:
    problems: list[Problem] = []
    for field, value, known in (
        ("sandbox", policy.sandbox, PROFILES),
        ("network", policy.network, NETWORKS),
    ):
        if value not in known:
            detail = f"{in_quotes(value)} is not one of {', '.join(known)}"
            problems.append(Problem(f"/policy/{field}", detail))
    for number, folder in enumerate(policy.binds or ()):
        root = folder.removesuffix(WRITABLE)
        if not root.startswith("/") or ".." in root.split("/"):
            detail = (
                f"{in_quotes(folder)} is not an absolute path of a folder; {WRITABLE} after it "
                "allows writing"
            )
            problems.append(Problem(f"/policy/binds/{number}", detail))
    return problems


NAMESPACES = DocumentKind(
    plural=KIND,
    singular="namespace",
    title="Namespaces",
    about="namespace",
    not_found_code="namespace_not_found",
    invalid_code="invalid_namespace",
    body=NamespaceBody,
    reading=in_cluster(Verb.ADMIN, Verb.AUDIT),
    writing=in_cluster(Verb.ADMIN),
    problems_of=problems_of,
)
