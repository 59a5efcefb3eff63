"""``rota certs``: the authority of a cluster, and certificates of its nodes and clients."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.client.cli.display.printing import say
from rota.client.cli.human import now
from rota.client.cli.inputs.command_groups import SuggestingGroup, output_before
from rota.client.cli.inputs.options import FORMATS, examples, output_option
from rota.core.model.ids import NAME_RULE, NodeId, is_name
from rota.core.timing.instants import to_datetime

if TYPE_CHECKING:  # For speed, not to avoid a cycle: cryptography may be missing, too.
    from rota.client.certificates.issuing import Issued

F = TypeVar("F", bound=Callable[..., Any])  # Any: options apply to any command

DAYS_LEFT_MIN = 14
EX_EXPIRES = 8
CLIENT_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._@-]{0,62}[A-Za-z0-9])?", re.ASCII)


def directory_option(command: F) -> F:
    """Add ``--dir``, passed as *directory*."""
    return click.option(
        "--dir",
        "directory",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("certs"),
        show_default=True,
        help="Folder of the authority and of the certificates.",
    )(command)


@click.group(
    cls=SuggestingGroup,
    epilog=examples(
        "rota certs init --cluster prod",
        "rota certs node n1 --host 10.0.0.11 --host n1.example.org",
        "rota certs client alice",
        "rota certs show",
        "rota certs renew n1",
    ),
)
@output_before
def certs() -> None:
    """Make the certificates of a cluster: its authority, its nodes, its clients.

    ca.key signs certificates for any node and client: keep it off the nodes. A node needs ca.crt
    and its own two files.
    """


@certs.command("init", epilog=examples("rota certs init", "rota certs init --cluster prod"))
@directory_option
@click.option(
    "--cluster", metavar="NAME", default="default", show_default=True, help="Name of the cluster."
)
def init(directory: Path, cluster: str) -> None:
    """Make the authority of a cluster: ca.crt and ca.key."""
    _check_name(cluster)
    from rota.client.certificates.certificate_files import AUTHORITY, write_new
    from rota.client.certificates.issuing import make_authority

    write_new(directory, AUTHORITY, make_authority(cluster, to_datetime(now())))
    say(f"made {directory}/ca.crt and {directory}/ca.key for the cluster {cluster}")
    say("keep ca.key off the nodes: it signs certificates for any node and client")


@certs.command(
    "node",
    short_help="Make the certificate of a node.",
    epilog=examples("rota certs node n1 --host 10.0.0.11 --host n1.example.org"),
)
@click.argument("node_id", metavar="NODE_ID")
@click.option(
    "--host",
    "hosts",
    metavar="ADDRESS_OR_NAME",
    multiple=True,
    help="Address or DNS name at which clients reach the node; may be repeated.",
)
@directory_option
def make_node(node_id: str, hosts: Sequence[str], directory: Path) -> None:
    """Make the certificate of the node NODE_ID: NODE_ID.crt and NODE_ID.key, for one year.

    Other nodes check the id, not the addresses, so an address may change without a new
    certificate. Clients with https:// check the addresses and names of --host.
    """
    _check_name(node_id)
    from rota.client.certificates.certificate_files import read_authority
    from rota.client.certificates.issuing import issue_node

    authority = read_authority(directory)
    issued = issue_node(authority, NodeId(node_id), hosts, to_datetime(now()))
    _write_new(directory, node_id, issued)


@certs.command(
    "client",
    short_help="Make the certificate of a client.",
    epilog=examples("rota certs client alice"),
)
@click.argument("name")
@directory_option
def make_client(name: str, directory: Path) -> None:
    """Make a certificate with the common name NAME for a client: NAME.crt and NAME.key."""
    if not CLIENT_NAME.fullmatch(name):
        raise click.UsageError(
            f"{name!r} is not a name of a client: 1 to 64 letters, digits, '.', '_', '@' or '-', "
            "beginning and ending with a letter or digit"
        )
    from rota.client.certificates.certificate_files import read_authority
    from rota.client.certificates.issuing import issue_client

    _write_new(directory, name, issue_client(read_authority(directory), name, to_datetime(now())))


@certs.command(
    "renew",
    short_help="Renew the certificate of a node or a client.",
    epilog=examples("rota certs renew n1", "rota certs renew alice --new-key"),
)
@click.argument("name", metavar="NODE_OR_NAME")
@click.option("--new-key", "has_new_key", is_flag=True, help="Make a new key, too.")
@directory_option
def renew(name: str, *, has_new_key: bool, directory: Path) -> None:
    """Make a certificate with the same names and a new term of a year.

    Copy the file to the node; it is used within ten seconds, without a restart.
    """
    from rota.client.certificates import certificate_files as files
    from rota.client.certificates import issuing

    if name == files.AUTHORITY:
        raise click.UsageError("the authority is not renewed; `rota certs init` makes a new one")
    authority = files.read_authority(directory)
    path = files.certificate_file(directory, name)
    earlier = issuing.load_certificate(files.read(path))
    key = None if has_new_key else issuing.load_key(files.read(files.key_file(directory, name)))
    issued = issuing.renew(authority, earlier, to_datetime(now()), key=key)
    files.replace(directory, name, issued, has_new_key=has_new_key)
    until = issuing.load_certificate(issued.certificate).not_valid_after_utc
    say(f"renewed {path}: valid until {until:%Y-%m-%d}")


@certs.command(
    "show",
    short_help="Show subjects, names and expiry of certificates.",
    epilog=examples("rota certs show", "rota certs show certs/n1.crt -o json"),
)
@click.argument("files", nargs=-1, type=click.Path(dir_okay=False, path_type=Path))
@directory_option
@output_option(FORMATS)
def show(files: Sequence[Path], directory: Path, form: str) -> int:
    """Show the certificates in FILES, or all in the folder; exit with 8 if one ends in 14 days."""
    from rota.client.cli.certs.certificate_views import LOOK, view_of
    from rota.client.cli.display.show import show_many

    paths = files or sorted(directory.glob("*.crt"))
    if not paths:
        raise click.UsageError(f"{directory} has no certificates; name files, or give --dir")
    views = [view_of(path, now()) for path in paths]
    show_many(views, LOOK, form)
    expiring = [view.file for view in views if view.days_left < DAYS_LEFT_MIN]
    for file in expiring:
        say(f"{file} ends within {DAYS_LEFT_MIN} days: renew it with `rota certs renew`")
    return EX_EXPIRES if expiring else 0


def _check_name(text: str) -> None:
    if not is_name(text):
        raise click.UsageError(f"{text!r} is not a name: {NAME_RULE}")


def _write_new(directory: Path, name: str, issued: "Issued") -> None:
    from rota.client.certificates.certificate_files import certificate_file, key_file, write_new

    write_new(directory, name, issued)
    say(f"made {certificate_file(directory, name)} and {key_file(directory, name)}")
