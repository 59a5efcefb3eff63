"""``rota auth``: the first key, the token in use, and the permissions of the caller."""

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rota.client.cli.access.login import check_profile_for, store_token
from rota.client.cli.access.new_tokens import new_token_option, show_new_token
from rota.client.cli.display.printing import out, say
from rota.client.cli.display.show import Column, Look, print_facts, print_table, show_one
from rota.client.cli.human import absolute
from rota.client.cli.inputs.command_groups import SuggestingGroup, output_before
from rota.client.cli.inputs.options import (
    connect,
    examples,
    format_option,
    timeout_in_use,
    url_option,
    urls_in_use,
)
from rota.client.cli.inputs.settings import value_of
from rota.client.cli.inputs.tokens import credentials_in_use
from rota.core.errors import RotaError
from rota.wire.tokens import ID_BYTES, SECRET_BYTES, mint

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no documents.
    from rota.wire.documents import NewTokenView, WhoamiView

EX_DENIED = 1


class NoToken(RotaError):
    """There is no token for the addresses of the command."""

    code = "no_token"


@click.group(
    cls=SuggestingGroup,
    epilog=examples(
        "rota auth init --data-dir rota-data --save",
        "rota auth whoami",
        "rota auth can run team-a",
        'curl -H "Authorization: Bearer $(rota auth token)" $ROTA_URL/api/v1/jobs',
    ),
)
@output_before
def auth() -> None:
    """Create the first key, and show who the caller is and what it may do."""


@auth.command(
    "init",
    short_help="Create the first key of a cluster.",
    epilog=examples(
        "rota auth init --data-dir rota-data",
        "rota auth init --data-dir rota-data --save --url http://127.0.0.1:7400",
    ),
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="ROTA_DATA_DIR",
    show_envvar=True,
    required=True,
    help="Data directory of a running node of the cluster, on this machine.",
)
@click.option("--name", default="admin", show_default=True, help="Name of the principal.")
@click.option(
    "--save", "is_saved", is_flag=True, help="Store the token in the profile, with the URL."
)
@new_token_option
@url_option
def init(data_dir: Path, *, name: str, is_saved: bool, form: str) -> None:
    """Create the first key of a cluster, with the role cluster-admin, and print its token.

    The request is sent to the socket in the data directory, which only the user of the node and
    root can use. It succeeds once: later keys are created with `rota key create`.
    """
    import asyncio

    from rota.client.requests import call
    from rota.client.transport.unix_socket import ask_at_socket
    from rota.wire import operations
    from rota.wire.documents import InitBody

    # Settings are checked first, since the token is given only once.
    urls, timeout_s = urls_in_use(is_new=True), timeout_in_use(is_new=True)
    if is_saved:
        check_profile_for(urls)
    initial = call(operations.INIT_ACCESS, body=InitBody(name=name))
    made = asyncio.run(ask_at_socket(data_dir, initial, timeout_s))
    if is_saved:
        _save(made, urls, form)
    else:
        show_new_token(made, form)


def _save(made: "NewTokenView", urls: tuple[str, ...], form: str) -> None:
    try:
        profile = store_token(urls, made.token)
    except (RotaError, click.UsageError):
        show_new_token(made, form)
        raise
    say(f"created key {made.name}; profile {profile} has its token, for {','.join(urls)}")


@auth.command(
    "whoami", epilog=examples("rota auth whoami", "rota auth whoami -o json --token-file token")
)
@format_option
@url_option
def whoami(form: str) -> None:
    """Show the caller and its roles, and where URL and token are from."""
    with connect() as client:
        found = client.whoami()
    url = value_of("url")
    if form not in ("table", "wide"):
        show_one(found, _caller_look(), form)
        return
    print_facts(
        [
            ("principal", found.principal),
            ("at", f"{url.text} ({url.source})"),
            ("token", found.token_id or ""),
            ("expires", f"{absolute(found.expires_at)} UTC" if found.expires_at else ""),
        ]
    )
    if found.bindings:
        out("")
        rows = [[each.role, " ".join(each.namespaces)] for each in found.bindings]
        print_table(["ROLE", "NAMESPACES"], rows)


def _caller_look() -> "Look[WhoamiView]":
    return Look(
        name=lambda found: found.principal,
        columns=(Column("PRINCIPAL", lambda found, _: found.principal),),
    )


@auth.command(
    "can",
    short_help="Show whether the caller has a verb.",
    epilog=examples("rota auth can run", "rota auth can write team-a", "rota auth can admin"),
)
@click.argument("verb")
@click.argument("namespace", required=False)
@url_option
def can(verb: str, *, namespace: str | None) -> int:
    """Print yes, or no and exit with 1: whether the caller has VERB in NAMESPACE.

    Without NAMESPACE, in all namespaces. The verbs in a namespace are read, logs, run, write and
    grant; those of the cluster, which need all namespaces, are operate, audit, metrics and admin.
    """
    with connect() as client:
        is_allowed = client.whoami(verb=verb, namespace=namespace).allowed
    out("yes" if is_allowed else "no")
    return 0 if is_allowed else EX_DENIED


@auth.command(
    "token",
    short_help="Print the token in use.",
    epilog=examples(
        "rota auth token",
        'curl -H "Authorization: Bearer $(rota auth token)" $ROTA_URL/api/v1/jobs',
        "rota auth token --new > first.token",
    ),
)
@click.option(
    "--new",
    "is_new",
    is_flag=True,
    help="Print a new token instead, for the setting bootstrap_key_file of the nodes of a new "
    "cluster. No node is asked.",
)
@url_option
def token(*, is_new: bool) -> None:
    """Print the token that commands send, for other programs.

    The arguments of a program are visible to other users of the machine; on a shared one, use
    curl -H @FILE instead.
    """
    if is_new:
        out(mint(secrets.token_bytes(ID_BYTES + SECRET_BYTES)).text)
        return
    urls = urls_in_use()
    credentials = credentials_in_use(urls)
    found = next((text for text in map(credentials.token_for, urls) if text), None)
    if found is None:
        raise NoToken(f"there is no token for {','.join(urls)}")
    out(found)
