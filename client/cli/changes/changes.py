"""``rota changes``: what users changed."""

import click

from rota.client.cli.inputs.command_groups import (
    Entry,
    ListingGroup,
    namespace_before,
    output_before,
)
from rota.client.cli.inputs.options import examples

COMMANDS = {
    "list": Entry("rota.client.cli.changes.change_views:list_changes", "List the latest changes."),
    "follow": Entry(
        "rota.client.cli.changes.change_views:follow_changes",
        "Print changes as they are made, for an export.",
    ),
    "verify": Entry(
        "rota.client.cli.changes.change_views:verify_changes",
        "Check that no change was altered, removed or inserted.",
    ),
}


class _Changes(ListingGroup):
    for_jobs = "`rota changes --of NAMESPACE/{job}` lists its changes."


@click.group(
    cls=_Changes,
    entries=COMMANDS,
    epilog=examples(
        "rota changes",
        "rota changes --by alice --since 7d -o wide",
        "rota changes --of billing/report",
        "rota changes follow --since 1h -o jsonl >> changes.jsonl",
        "rota changes verify",
    ),
)
@namespace_before
@output_before
def changes() -> None:
    """Show who changed jobs and shared documents, and who ended or reran executions.

    Without a command, the latest changes are listed. Executions that users triggered are no
    changes; `rota executions show` has their callers.
    """
