"""``rota grant`` and ``rota ungrant``: roles of principals in namespaces.

A grant is a binding. All grants of one role to one subject are in one binding, whose name is
derived from both. Other bindings of them, such as that of `rota key create`, are taken into account
and left to their authors, except by `rota ungrant`.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING

import click

from rota.client.cli.display.printing import say
from rota.client.cli.inputs.options import connect, dry_run_option, examples, url_option
from rota.core.errors import RotaError

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client
    from rota.wire.documents import DocumentView

KIND = "bindings"
PRINCIPAL = "principal"
NEW = 0
"""The version of a document that does not exist."""
NAME_MAX = 40
"""The most characters of a subject, and of a role, in the name of a binding."""


class NoGrant(RotaError):
    """The subject does not have the role in the namespace by a binding of that subject."""

    code = "no_grant"


@click.command(
    epilog=examples(
        "rota grant ana editor team-a team-b",
        "rota grant ana viewer '*'",
        "rota grant cert:build-01 operator team-a --dry-run",
        "rota grant group:corp/data-team editor team-a",
    )
)
@click.argument("subject")
@click.argument("role")
@click.argument("namespaces", metavar="NAMESPACE...", nargs=-1, required=True)
@dry_run_option
@url_option
def grant(subject: str, role: str, namespaces: tuple[str, ...], *, is_dry: bool) -> None:
    """Give a role to a principal in namespaces.

    SUBJECT is the name of a principal, cert:COMMON-NAME, job:NAMESPACE/NAME for the tasks of a job
    with identity, or sub:ISSUER/SUBJECT or group:ISSUER/GROUP for tokens of an issuer. The built-in
    roles are viewer, operator, editor and admin, and with the namespace '*' also cluster-operator,
    auditor, metrics and cluster-admin. 'team-*' matches several namespaces; quote it for the shell.
    """
    subject = _full(subject)
    name = binding_name(subject, role)
    with connect() as client:
        found = _bindings(client, subject, role)
        if {*namespaces} <= {each for binding in found for each in _namespaces(binding)}:
            say(f"{subject} has the role {role} in {_listed(namespaces)} already")
            return
        own = next((binding for binding in found if binding.name == name), None)
        before = _namespaces(own) if own else []
        client.put_document(
            KIND,
            name,
            {
                "subject": subject,
                "role": role,
                "namespaces": list(dict.fromkeys([*before, *namespaces])),
            },
            if_version=own.version if own else NEW,
            dry_run=is_dry,
        )
        _say(f"granted {role} in {_listed(namespaces)} to {subject}", is_dry=is_dry)
        if not is_dry:
            say_what_a_subject_needs(client, subject)


@click.command(
    epilog=examples("rota ungrant ana editor team-b", "rota ungrant ana editor", "rota ungrant -h")
)
@click.argument("subject")
@click.argument("role")
@click.argument("namespaces", metavar="[NAMESPACE]...", nargs=-1)
@dry_run_option
@url_option
def ungrant(subject: str, role: str, namespaces: tuple[str, ...], *, is_dry: bool) -> None:
    """Take a role from a principal, in some namespaces or in all of them.

    A namespace is given as it was granted: 'team-*' does not take away team-a.
    """
    subject = _full(subject)
    with connect() as client:
        found = _bindings(client, subject, role)
        granted = {each for binding in found for each in _namespaces(binding)}
        missing = [each for each in namespaces if each not in granted]
        if missing or not found:
            there = f"; its namespaces are {_listed(sorted(granted))}" if granted else ""
            where = f" in {_listed(missing)}" if missing else ""
            raise NoGrant(f"{subject} was not granted {role}{where}{there}")
        for binding in found:
            _take(client, binding, namespaces, is_dry=is_dry)
    where = f" in {_listed(namespaces)}" if namespaces else ""
    _say(f"took {role}{where} from {subject}", is_dry=is_dry)


def binding_name(subject: str, role: str) -> str:
    """Return the name of the binding of a role to a subject.

    The end is a hash, since names of subjects may have characters that names of documents do not.
    """
    words = [re.sub(r"[^A-Za-z0-9_-]+", "-", text)[:NAME_MAX] for text in (role, subject)]
    ending = sha256(f"{subject}\0{role}".encode()).hexdigest()[:8]
    return "-".join([*(word.strip("_-") for word in words), ending]).lstrip("-")


def _full(subject: str) -> str:
    return subject if ":" in subject else f"{PRINCIPAL}:{subject}"


def _bindings(client: "Client", subject: str, role: str) -> "list[DocumentView]":
    return [
        each
        for each in client.documents(KIND)
        if each.definition.get("subject") == subject and each.definition.get("role") == role
    ]


def _namespaces(binding: "DocumentView") -> list[str]:
    return [str(each) for each in binding.definition.get("namespaces", [])]


def _take(
    client: "Client", binding: "DocumentView", namespaces: Sequence[str], *, is_dry: bool
) -> None:
    before = _namespaces(binding)
    left = [each for each in before if each not in namespaces] if namespaces else []
    if left == before:
        return
    if left:
        client.put_document(
            KIND,
            binding.name,
            {**binding.definition, "namespaces": left},
            if_version=binding.version,
            dry_run=is_dry,
        )
    else:
        client.delete_document(KIND, binding.name, if_version=binding.version, dry_run=is_dry)


def _listed(namespaces: Sequence[str]) -> str:
    return ", ".join(namespaces)


def _say(text: str, *, is_dry: bool) -> None:
    say(f"dry run: nothing is changed; would have {text}" if is_dry else text)


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
        if _full(principal) not in subjects:
            say(
                f"{principal} has no role yet, so its requests are refused; give it one: "
                f"rota grant {principal} viewer default"
            )
