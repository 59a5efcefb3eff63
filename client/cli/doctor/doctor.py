"""``rota doctor``: checks of this machine, the node and the cluster, each with the remedy."""

from collections.abc import Iterator
from pathlib import Path

import click

from rota.client.cli.display.show import show_many
from rota.client.cli.doctor.checks import LOOK, CheckView, fine
from rota.client.cli.doctor.machine import checks_of_certificates, checks_of_machine
from rota.client.cli.doctor.nodes import checks_of_cluster, checks_of_etcd
from rota.client.cli.inputs.options import (
    connect,
    examples,
    format_option,
    tls_in_use,
    url_option,
    urls_in_use,
)
from rota.core.errors import RotaError

EX_FAILED = 1
CHECK_S = 10.0
"""The maximum delay of an answer of the node, in seconds."""


@click.command(
    epilog=examples(
        "rota doctor",
        "rota doctor --data-dir /var/lib/rota",
        "rota doctor -o json",
    )
)
@click.argument(
    "certificates", metavar="[CERTIFICATE...]", nargs=-1, type=click.Path(path_type=Path)
)
@click.option(
    "--data-dir",
    "folder",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    envvar="ROTA_DATA_DIR",
    default=Path(),
    help="Data of the node, for the space on its disk.  [default: this folder]",
)
@click.option(
    "--etcd",
    metavar="URLS",
    envvar="ROTA_ETCD",
    default="",
    help="URLs of etcd, with commas, to check from here.  [$ROTA_ETCD]",
)
@format_option
@url_option
def doctor(certificates: tuple[Path, ...], *, folder: Path, etcd: str, form: str) -> int:
    """Check this machine, the node and its cluster; exit with 1 if a check fails.

    Run it on the machine of a node. What fails does not work; a warning is about something that
    works now. Certificates of the connection, and those given, are checked for their end.
    """
    tls = tls_in_use()
    files = [*certificates, *(Path(each) for each in (tls.ca, tls.cert) if each)]
    checks = [
        *checks_of_machine(folder),
        *checks_of_certificates(files),
        *checks_of_etcd([each.strip() for each in etcd.split(",") if each.strip()], tls.ca),
        *_checks_of_node(),
    ]
    show_many(checks, LOOK, form)
    return EX_FAILED if any(each.state == "fail" for each in checks) else 0


def _checks_of_node() -> Iterator[CheckView]:
    """Yield the checks that need a node; a single one if it does not answer."""
    from rota.client.errors import RequestFailed

    try:
        with connect(timeout_s=CHECK_S, repeats_max=0) as client:
            there = client.version()
            yield fine("node", f"{there.version}, {there.node_id} of cluster {there.cluster}")
            yield from checks_of_cluster(client.cluster())
    except RotaError as error:
        yield CheckView(
            check="node",
            state="fail",
            seen=error.detail if isinstance(error, RequestFailed) else str(error),
            mend=f"start the node at {', '.join(urls_in_use())}, or give its --url and token",
        )
