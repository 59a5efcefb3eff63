"""Delegation: which bindings a principal without rights over the whole cluster may write.

No principal can give, change or take away more than it has: it needs the verb ``grant``, and every
verb of the role, in all namespaces that the binding may ever match.
"""

from collections.abc import Sequence

from rota.core.errors import Kind, Refused
from rota.core.quoting import in_quotes
from rota.node.access.access_table import AccessTable
from rota.node.access.principal import Principal
from rota.node.access.unknown_words import unknown_role
from rota.node.access.verbs import EVERY, Verb


def why_not_delegable(
    principal: Principal, table: AccessTable, role: str, namespaces: Sequence[str]
) -> Refused | None:
    """Return why *principal* may not write a binding of *role*; None if it may.

    Args:
        principal: The caller.
        table: The table of access, for the verbs of the role.
        role: The role of the binding, before or after the change.
        namespaces: The namespaces of the binding.
    """
    if principal.may(Verb.ADMIN, EVERY):
        return None
    verbs = table.verbs_of(role)
    if verbs is None:
        # The caller may not read the roles of documents, so that the message has none of them.
        return _refusal(principal, unknown_role(role))
    for pattern in namespaces or (EVERY,):
        for verb in sorted(verbs | {Verb.GRANT}, key=lambda each: each.value):
            if not principal.grants.may_in_all(verb, pattern):
                return _refusal(
                    principal, f"it lacks the verb {verb.value!r} in {in_quotes(pattern)}"
                )
    return None


def name_taken(principal: Principal) -> Refused:
    """Return the refusal of a binding whose name another one has, which *principal* may not read.

    Nothing of the other one is stated.
    """
    return _refusal(principal, "another binding has its name; choose another name")


def _refusal(principal: Principal, reason: str) -> Refused:
    return Refused(
        Kind.FORBIDDEN,
        "forbidden",
        f"{principal.name!r} may not write this binding: {reason}; a binding needs the verb "
        "'grant' and all verbs of its role, in all of its namespaces",
    )
