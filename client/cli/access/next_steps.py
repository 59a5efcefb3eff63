"""The command that a subject or a key still needs, after a grant or a new key."""

from contextlib import suppress
from typing import TYPE_CHECKING

from rota.client.cli.display.printing import say
from rota.core.errors import RotaError

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

PRINCIPAL = "principal:"


def say_what_a_subject_needs(client: "Client", subject: str) -> None:
    """Print the next command if *subject* has a role and no credential yet.

    Nothing is printed if the caller may not read keys or issuers.
    """
    kind, _, named = subject.partition(":")
    with suppress(RotaError):  # The grant is made.
        if kind == "principal":
            owners = {each.definition.get("principal") for each in client.documents("keys")}
            if named not in owners:
                say(f"{named} has no key yet; create one: rota key create {named}")
        elif kind in ("sub", "group"):
            issuer = named.partition("/")[0]
            if issuer not in {each.name for each in client.documents("issuers")}:
                say(
                    f"there is no issuer {issuer} yet; define it in a file (kind: issuer, "
                    f"name: {issuer}): rota apply -f FILE"
                )


def say_what_a_principal_needs(client: "Client", principal: str) -> None:
    """Print the next command if *principal* has a key and no role yet."""
    with suppress(RotaError):  # The key is made.
        subjects = {each.definition.get("subject") for each in client.documents("bindings")}
        if f"{PRINCIPAL}{principal}" not in subjects:
            say(
                f"{principal} has no role yet, so its requests are refused; give it one: "
                f"rota grant {principal} viewer default"
            )
