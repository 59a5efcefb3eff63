"""``rota state``: values that the executions of a job share, such as cursors and locks."""

import click

from rota.client.cli.display.printing import out, say
from rota.client.cli.display.show import show_many, show_one
from rota.client.cli.display.table_columns import STATE
from rota.client.cli.inputs.command_groups import SuggestingGroup
from rota.client.cli.inputs.json_text import as_json_text
from rota.client.cli.inputs.options import (
    as_seconds,
    connect,
    dry_run_option,
    examples,
    format_option,
    job_argument,
    namespace_option,
    url_option,
)
from rota.wire.documents import Json

_name = click.argument("name", metavar="KEY")
_revision = click.option(
    "--if-revision", type=click.IntRange(1), metavar="N", help="Only if it has this revision."
)


class _State(SuggestingGroup):
    for_jobs = "`rota state list {job}` lists its values."


@click.group(
    cls=_State,
    epilog=examples(
        "rota state list report",
        "rota state get report cursor",
        "rota state set report cursor '\"2026-11-01\"' --forward",
        "rota state lock report table --wait 10m",
    ),
)
def state() -> None:
    """Show and change values that the executions of a job share.

    A value is JSON. It survives the death of any node, and is deleted with its job. A task calls
    these commands for its own job with "identity: true", and needs no role for that.
    """


@state.command("list", epilog=examples("rota state list report"))
@job_argument
@namespace_option
@format_option
@url_option
def list_state(job: str, *, namespace: str | None, form: str) -> None:
    """List the values of a job."""
    with connect() as client:
        show_many(client.state(job, namespace=namespace), STATE, form)


@state.command("get", epilog=examples("rota state get report cursor"))
@job_argument
@_name
@namespace_option
@format_option
@url_option
def get(job: str, name: str, *, namespace: str | None, form: str) -> None:
    """Print a value as JSON; another format has its revision, too."""
    import msgspec

    with connect() as client:
        found = client.get_state(job, name, namespace=namespace)
    if form in ("table", "wide"):
        out(msgspec.json.encode(found.value).decode())
    else:
        show_one(found, STATE, form)


@state.command(
    "set",
    epilog=examples(
        "rota state set report cursor '\"2026-11-01\"' --forward",
        "rota state set report settings @settings.json",
        "rota state set report owner '\"me\"' --new",
    ),
)
@job_argument
@_name
@click.argument("value", callback=as_json_text)
@click.option("--new", "is_new", is_flag=True, help="Only if there is no value yet.")
@click.option("--forward", "is_forward", is_flag=True, help="Only if it is not smaller.")
@_revision
@dry_run_option
@namespace_option
@url_option
def set_state(
    job: str,
    name: str,
    value: Json,
    *,
    is_new: bool,
    is_forward: bool,
    if_revision: int | None,
    is_dry: bool,
    namespace: str | None,
) -> None:
    """Set a value: JSON, @FILE, or - for standard input."""
    if is_new and if_revision is not None:
        raise click.UsageError("give --new or --if-revision, not both")
    with connect() as client:
        made = client.put_state(
            job,
            name,
            value,
            if_revision=0 if is_new else if_revision,
            only_forward=is_forward,
            namespace=namespace,
            dry_run=is_dry,
        )
    say(f"{'would have ' if is_dry else ''}set {name} of {job}, revision {made.revision}")


@state.command("delete", epilog=examples("rota state delete report cursor"))
@job_argument
@_name
@_revision
@dry_run_option
@namespace_option
@url_option
def delete(
    job: str, name: str, *, if_revision: int | None, is_dry: bool, namespace: str | None
) -> None:
    """Delete a value; a lock is released."""
    with connect() as client:
        client.delete_state(job, name, if_revision=if_revision, namespace=namespace, dry_run=is_dry)
    say(f"{'would have ' if is_dry else ''}deleted {name} of {job}")


@state.command("lock", epilog=examples("rota state lock report table --wait 10m"))
@job_argument
@_name
@click.option(
    "--wait",
    "wait_s",
    metavar="TIME",
    default="0s",
    show_default=True,
    callback=as_seconds,
    help="How long to wait for it.",
)
@click.option(
    "--execution",
    "execution_id",
    metavar="ID",
    envvar="ROTA_EXECUTION_ID",
    required=True,
    help="The execution that holds it.  [$ROTA_EXECUTION_ID]",
)
@click.option(
    "--task", metavar="NAME", envvar="ROTA_TASK", help="The task that holds it.  [$ROTA_TASK]"
)
@namespace_option
@url_option
def lock(
    job: str,
    name: str,
    *,
    wait_s: float,
    execution_id: str,
    task: str | None,
    namespace: str | None,
) -> None:
    """Get a lock of a job for a task of it, and keep it until that ends.

    At most one task has it. It ends with the task, or is released by "rota state delete". A task
    whose node fails keeps it for its next attempt.
    """
    from rota.client.job_state import JobState

    full = f"{namespace}/{job}" if namespace and "/" not in job else job
    with connect() as client:
        found = JobState(full, client=client, execution_id=execution_id, task=task)
        found.acquire(name, timeout_s=wait_s)
    say(f"locked {name} of {job} for {task or 'execution'} {execution_id}")
