"""``rota approve``, ``rota reject`` and ``rota send``: what tasks wait for."""

import click

from rota.client.cli.display.printing import say
from rota.client.cli.inputs.json_text import as_json_text
from rota.client.cli.inputs.options import (
    connect,
    dry_run_option,
    examples,
    execution_argument,
    namespace_option,
    url_option,
)
from rota.client.cli.inputs.parameters import members_of, parameters_options, with_members
from rota.wire.documents import Json

_task = click.argument("task")
_reason = click.option("--reason", default="", metavar="TEXT", help="The reason, for others.")


@click.command(
    epilog=examples(
        "rota approve release@latest check",
        "rota approve release@latest check -p version=1.4 --reason 'tested'",
    )
)
@execution_argument
@_task
@parameters_options
@_reason
@dry_run_option
@namespace_option
@url_option
def approve(
    execution: str,
    task: str,
    *,
    overrides: tuple[str, ...],
    parameters: Json,
    reason: str,
    is_dry: bool,
    namespace: str | None,
) -> None:
    """Approve what a task waits for.

    The parameters are what the form of the task asks for; they become its result.
    """
    form = with_members(parameters, members_of(overrides))
    _answer(execution, task, namespace, is_approved=True, reason=reason, form=form, is_dry=is_dry)


@click.command(epilog=examples("rota reject release@latest check --reason 'too early'"))
@execution_argument
@_task
@_reason
@dry_run_option
@namespace_option
@url_option
def reject(execution: str, task: str, *, reason: str, is_dry: bool, namespace: str | None) -> None:
    """Reject what a task waits for: the task fails, or is skipped if it is defined so."""
    _answer(execution, task, namespace, is_approved=False, reason=reason, form=None, is_dry=is_dry)


@click.command(
    epilog=examples(
        "rota send release@latest built",
        'rota send release@latest built -d \'{"image": "shop:1.4"}\'',
    )
)
@execution_argument
@click.argument("event")
@click.option(
    "-d",
    "--data",
    metavar="JSON",
    callback=as_json_text,
    help="The data: JSON, @FILE, or - for standard input.",
)
@dry_run_option
@namespace_option
@url_option
def send(execution: str, event: str, *, data: Json, is_dry: bool, namespace: str | None) -> None:
    """Post an event to an execution, for its tasks that wait for it, now or later.

    The data become the result of these tasks. A repetition with the same data changes nothing.
    """
    from rota.client.cli.inputs.execution_names import execution_id_of

    with connect() as client:
        execution_id = execution_id_of(client, execution, namespace)
        posted = client.post_event(execution_id, event, data, dry_run=is_dry)
    say(f"{'would have ' if is_dry else ''}posted {event} to {posted.job}, {execution_id}")


def _answer(
    execution: str,
    task: str,
    namespace: str | None,
    *,
    is_approved: bool,
    reason: str,
    form: Json,
    is_dry: bool,
) -> None:
    from rota.client.cli.inputs.execution_names import execution_id_of

    with connect() as client:
        execution_id = execution_id_of(client, execution, namespace)
        answered = client.answer(
            execution_id, task, approve=is_approved, reason=reason, form=form, dry_run=is_dry
        )
    word = "approved" if is_approved else "rejected"
    say(f"{'would have ' if is_dry else ''}{word} {task} of {answered.job}, {execution_id}")
