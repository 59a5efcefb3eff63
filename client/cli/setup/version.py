"""``rota version``: versions of client and node."""

import platform

import click
import msgspec

import rota
from rota.client.cli.display.show import Column, Look, print_facts, show_one
from rota.client.cli.inputs.options import connect, examples, output_option, url_option


class Versions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Versions of the client, and of the node if it answered."""

    client: str
    client_python: str
    url: str
    node: str | None = None
    node_id: str | None = None
    cluster: str | None = None
    node_python: str | None = None


LOOK: Look[Versions] = Look(
    name=lambda versions: versions.client,
    columns=(
        Column("CLIENT", lambda versions, _: versions.client),
        Column("NODE", lambda versions, _: versions.node or ""),
    ),
)


@click.command(epilog=examples("rota version", "rota --version", "rota version -o json"))
@output_option(("table", "json", "yaml"))
@url_option
def version(form: str) -> None:
    """Show the versions of this client and of the node that it is connected to."""
    with connect() as client:
        here = Versions(
            client=rota.__version__, client_python=platform.python_version(), url=client.url
        )
        try:
            there = client.version()
        except Exception:
            _show(here, form)
            raise
    _show(
        msgspec.structs.replace(
            here,
            node=there.version,
            node_id=there.node_id,
            cluster=there.cluster,
            node_python=there.python,
        ),
        form,
    )


def _show(versions: Versions, form: str) -> None:
    if form != "table":
        show_one(versions, LOOK, form)
        return
    node = versions.node
    about = f" (Python {versions.node_python}), {versions.node_id} of cluster {versions.cluster}"
    print_facts(
        [
            ("client", f"{versions.client} (Python {versions.client_python})"),
            ("node", f"{node}{about}" if node else ""),
            ("url", versions.url),
        ]
    )
