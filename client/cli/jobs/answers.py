"""``rota approve``, ``rota reject`` and ``rota send``: what tasks wait for; and ``rota emit``."""

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
_data = click.option(
    "--data",
    metavar="JSON",
    callback=as_json_text,
    help="The data: JSON, @FILE, or - for standard input.",
)
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


@click.command(
    epilog=examples(
        """rota emit com.example.order.paid --data '{"order": 7}'""",
        "rota emit backup.done --source /hosts/db1 --id 2027-01-01 --subject orders",
    )
)
@click.argument("event_type", metavar="TYPE")
@_data
@click.option("--source", default="rota", show_default=True, help="Where it comes from.")
@click.option("--id", "event_id", metavar="ID", help="Its id.  [default: a random one]")
@click.option("--subject", metavar="TEXT", help="What it is about.")
@dry_run_option
@namespace_option
@url_option
def emit(
    event_type: str,
    *,
    data: Json,
    source: str,
    event_id: str | None,
    subject: str | None,
    is_dry: bool,
    namespace: str | None,
) -> None:
    """Send an event from outside: it starts the jobs that have a trigger for its type.

    A repetition with the same source and id within a day changes nothing.
    """
    with connect() as client:
        sent = client.send_event(
            event_type,
            data,
            source=source,
            event_id=event_id,
            subject=subject,
            namespace=namespace,
            dry_run=is_dry,
        )
    if sent.repeated:
        say(f"{sent.type} {sent.id} of {source} was received before; nothing was changed")
        return
    jobs = f"{sent.jobs} job" if sent.jobs == 1 else f"{sent.jobs} jobs"
    word = "would have sent" if is_dry else "sent"
    say(f"{word} {sent.type} {sent.id} to {jobs} of {sent.namespace}")
    if not sent.jobs:
        say(f"warning: no job of {sent.namespace} has a trigger for {sent.type}")


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
