"""``rota key``: keys, which are the credentials of principals."""

import click

from rota.client.cli.access.grants import say_what_a_principal_needs
from rota.client.cli.access.new_tokens import new_token_option, show_new_token
from rota.client.cli.documents.kinds import delete_command, list_command
from rota.client.cli.inputs.command_groups import SuggestingGroup, output_before
from rota.client.cli.inputs.options import connect, examples, url_option


@click.group(
    cls=SuggestingGroup,
    epilog=examples(
        "rota key create ci --role editor --namespace team-a --expires 90d",
        "rota key list",
        "rota key rotate ci --grace 1h",
        "rota key revoke ci",
    ),
)
@output_before
def key() -> None:
    """Create, list, rotate and revoke keys.

    A key has the tokens of a principal, which is a person or a program; its roles come from
    bindings: see `rota grant`.
    """


@key.command(
    "create",
    short_help="Create a key, and print its token.",
    epilog=examples(
        "rota key create ci --role editor --namespace team-a --namespace 'team-b-*'",
        "rota key create laptop --principal ana --expires 90d --from 10.0.0.0/8",
        "rota key create backup --role viewer --namespace '*' > token",
    ),
)
@click.argument("name")
@click.option(
    "--principal", default="", help="Person or program that uses the token.  [default: NAME]"
)
@click.option("--role", default="", help="Role of the principal in the namespaces.")
@click.option(
    "--namespace",
    "namespaces",
    metavar="NAMESPACE",
    multiple=True,
    help="Namespace of the role; team-* and * match several. Repeatable.",
)
@click.option("--expires", metavar="DURATION", help="Time until the token expires, such as 90d.")
@click.option(
    "--from",
    "networks",
    metavar="CIDR",
    multiple=True,
    help="Network from which the token is accepted, such as 10.0.0.0/8. Repeatable.",
)
@new_token_option
@url_option
def create_key(
    name: str,
    *,
    principal: str,
    role: str,
    namespaces: tuple[str, ...],
    expires: str | None,
    networks: tuple[str, ...],
    form: str,
) -> None:
    """Create a key, and print its token, which is shown only once."""
    if bool(role) is not bool(namespaces):
        raise click.UsageError(
            "--role and --namespace belong together: give both, or neither and later "
            "`rota grant PRINCIPAL ROLE NAMESPACE`"
        )
    with connect() as client:
        made = client.create_key(
            name,
            principal=principal,
            expires_in=expires,
            networks=networks,
            role=role,
            namespaces=namespaces,
        )
        # First, since the token is shown only once.
        show_new_token(made, form)
        if not role:
            say_what_a_principal_needs(client, made.principal)


@key.command(
    "rotate",
    short_help="Create a new token for a key, and print it.",
    epilog=examples("rota key rotate ci", "rota key rotate ci --grace 24h --expires 90d"),
)
@click.argument("name")
@click.option(
    "--grace",
    metavar="DURATION",
    default="1h",
    show_default=True,
    help="Time for which the earlier tokens are still accepted; 0s ends them at once.",
)
@click.option(
    "--expires",
    metavar="DURATION",
    help="Time until the new token expires.  [default: the end of the earlier token]",
)
@new_token_option
@url_option
def rotate_key(name: str, *, grace: str, expires: str | None, form: str) -> None:
    """Create a new token for a key, and print it; it is shown only once.

    Programs that read the token from a file (--token-file, ROTA_TOKEN_FILE, token_file of the
    Python client) use the new one without a restart.
    """
    with connect() as client:
        # A number without a unit is in seconds.
        earlier_end = int(grace) if grace.isdecimal() else grace
        made = client.rotate_key(name, grace=earlier_end, expires_in=expires)
    show_new_token(made, form)


key.add_command(
    list_command("keys", "List the keys with their tokens, which are named by their public parts.")
)
key.add_command(
    delete_command(
        "keys",
        """Delete keys; all nodes refuse their tokens within milliseconds.

        A node without a connection to etcd refuses them when it is back. Other keys of the
        principal, and its roles, stay: see `rota ungrant`.
        """,
        "rota key revoke ci",
        "rota key revoke ci laptop --dry-run",
        short_help="Delete keys; their tokens are refused from now on.",
        verb="revoke",
    )
)
