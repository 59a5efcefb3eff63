"""Messages about roles and verbs that do not exist, with similar ones."""

from collections.abc import Iterable

from rota.core.near_names import near_names
from rota.core.quoting import in_quotes
from rota.node.access.verbs import ROLES, Verb

OWN_ROLES_SHOWN = 12
"""The most roles that are not built in, in one message."""
VERBS = [each.value for each in Verb]


def unknown_role(role: str, own: Iterable[str] = ()) -> str:
    """Return the message that *role* does not exist.

    Args:
        role: The name.
        own: The roles of documents, as far as the reader of the message may know them.
    """
    others = sorted(own)
    hint = _did_you_mean(role, [*ROLES, *others])
    shown = ", ".join(others[:OWN_ROLES_SHOWN])
    more = ", ..." if len(others) > OWN_ROLES_SHOWN else ""
    defined = f"; {shown}{more} are defined here" if others else ""
    return (
        f"there is no role {in_quotes(role)}{hint}; the built-in roles are {', '.join(ROLES)}"
        f"{defined}; a role of your own has to be defined before a binding names it"
    )


def unknown_verb(verb: str) -> str:
    """Return the message that *verb* does not exist."""
    hint = _did_you_mean(verb, VERBS)
    return f"{in_quotes(verb)} is not a verb{hint}; the verbs are {', '.join(VERBS)}"


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    close = near_names(word, known)
    return f" (did you mean {in_quotes(close[0])}?)" if close else ""
