"""``rota secret``: secrets of namespaces. No command shows a value."""

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from rota.client.cli.display.printing import say, say_done
from rota.client.cli.display.show import Column, Look, show_many
from rota.client.cli.human import absolute
from rota.client.cli.inputs.command_groups import (
    SuggestingGroup,
    namespace_before,
    output_before,
)
from rota.client.cli.inputs.options import (
    connect,
    dry_run_option,
    everywhere_option,
    examples,
    format_option,
    namespace_option,
    url_option,
)
from rota.wire.documents import SECRET_BYTES_MAX, JobView, SecretView
from rota.wire.documents.document import View

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

DEFAULT = "default"


@click.group(
    cls=SuggestingGroup,
    epilog=examples(
        "rota secret set db < password.txt",
        "rota secret list",
        "rota secret uses db",
        "rota secret delete db",
    ),
)
@namespace_before
@output_before
def secret() -> None:
    """Set, list and delete secrets of namespaces.

    Jobs of the namespace name a secret, and their tasks get its value as a variable or a file.
    No command reads a value back.
    """


@secret.command(
    "set",
    short_help="Set a secret to the standard input.",
    epilog=examples(
        "rota secret set db < password.txt",
        "openssl rand -base64 24 | rota secret set db -n team-a",
        "rota secret set tls.key --new < tls.key",
    ),
)
@click.argument("name")
@click.option("--new", "is_new", is_flag=True, help="Refuse to replace a secret that exists.")
@dry_run_option
@namespace_option
@url_option
def set_secret(name: str, *, is_new: bool, is_dry: bool, namespace: str | None) -> None:
    """Set a secret to the content of the standard input, at most 64 KiB.

    The value is taken as it is, with a newline at its end if there is one. It is no argument,
    because all users of a machine can read the arguments of its programs. At a terminal, the value
    is asked for, without being shown.
    """
    value = _value()
    with connect() as client:
        made = client.set_secret(
            name, value, namespace=namespace or DEFAULT, is_new=is_new, dry_run=is_dry
        )
    done = "would be set; nothing is changed" if is_dry else f"set, version {made.version}"
    say(f"secret {made.namespace}/{name} {done}")


@secret.command(
    "list",
    short_help="List secrets, without their values.",
    epilog=examples("rota secret list", "rota secret list -A -o json"),
)
@namespace_option
@everywhere_option
@format_option
@url_option
def list_secrets(*, namespace: str | None, is_everywhere: bool, form: str) -> None:
    """List the secrets of a namespace, without their values."""
    within = None if is_everywhere else namespace or DEFAULT
    with connect() as client:
        show_many(list(client.secrets(namespace=within)), SECRET, form)


@secret.command(
    "delete",
    short_help="Delete secrets.",
    epilog=examples("rota secret delete db", "rota secret delete db tls.key --dry-run"),
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@dry_run_option
@namespace_option
@url_option
def delete_secrets(names: tuple[str, ...], *, is_dry: bool, namespace: str | None) -> None:
    """Delete secrets.

    Jobs that name them stay; `rota secret uses NAME` lists them. Their attempts are lost
    until the secret is set again.
    """
    within = namespace or DEFAULT
    with connect() as client:
        for name in names:
            client.delete_secret(name, namespace=within, dry_run=is_dry)
            say_done("deleted", f"secret {within}/{name}", is_dry=is_dry)


@secret.command(
    "uses",
    short_help="List the jobs and webhooks that name a secret.",
    epilog=examples("rota secret uses db", "rota secret uses db -n team-a -o name"),
)
@click.argument("name")
@namespace_option
@format_option
@url_option
def list_uses(name: str, *, namespace: str | None, form: str) -> None:
    """List the tasks that name a secret, with the variables and files that have its value.

    Webhooks whose key it is are listed too, for callers who may read webhooks.
    """
    within = namespace or DEFAULT
    with connect() as client:
        client.secret(name, namespace=within)  # A mistyped name is an error, not an empty list.
        show_many(list(_uses(client, within, name)), USE, form)


def _value() -> bytes:
    """Return the value from the standard input.

    Raises:
        click.UsageError: The value is empty or too long.
    """
    if sys.stdin.isatty():
        value = str(click.prompt("Value", hide_input=True, confirmation_prompt=True)).encode()
    else:
        value = sys.stdin.buffer.read(SECRET_BYTES_MAX + 1)
    if not value:
        raise click.UsageError("the standard input is empty; a secret has at least one byte")
    if len(value) > SECRET_BYTES_MAX:
        raise click.UsageError(f"the value is longer than {SECRET_BYTES_MAX} bytes, the limit")
    return value


class Use(View, frozen=True):
    """A variable or a file of a task that has the value of a secret, or a webhook with its key.

    Attributes:
        job: The job of the task; this and the next three are empty for a webhook.
        task: The task.
        variable: The variable; empty for a file.
        file: The file; empty for a variable.
        webhook: The webhook; empty for a task.
    """

    job: str = ""
    task: str = ""
    variable: str = ""
    file: str = ""
    webhook: str = ""


def _uses(client: "Client", namespace: str, name: str) -> Iterator[Use]:
    from rota.client.errors import NotAllowed

    for listed in client.jobs(namespace=namespace):
        yield from _uses_in(listed, name)
    try:
        webhooks = list(client.documents("webhooks"))
    except NotAllowed:
        say("webhooks are not listed: only administrators and auditors may read them")
        return
    for webhook in webhooks:
        definition = webhook.definition
        if (definition.get("namespace", DEFAULT), definition.get("secret")) == (namespace, name):
            yield Use(webhook=webhook.name)


def _uses_in(job: JobView, name: str) -> Sequence[Use]:
    found, full = list[Use](), f"{job.namespace}/{job.name}"
    for task in job.tasks or ():
        if task.secrets is None:
            continue
        for variable, used in task.secrets.env.items():
            if used == name:
                found.append(Use(job=full, task=task.name, variable=variable))
        for file, used in task.secrets.files.items():
            if used == name:
                found.append(Use(job=full, task=task.name, file=file))
    return found


SECRET: Look[SecretView] = Look(
    name=lambda found: found.name,
    columns=(
        Column("NAMESPACE", lambda found, _: found.namespace),
        Column("NAME", lambda found, _: found.name),
        Column("VERSION", lambda found, _: str(found.version)),
        Column("SET (UTC)", lambda found, _: absolute(found.set_at)),
        Column("BY", lambda found, _: found.set_by),
    ),
)
USE: Look[Use] = Look(
    name=lambda found: found.job or f"webhook/{found.webhook}",
    columns=(
        Column("JOB", lambda found, _: found.job or "-"),
        Column("TASK", lambda found, _: found.task or "-"),
        Column("VARIABLE", lambda found, _: found.variable or "-"),
        Column("FILE", lambda found, _: found.file or "-"),
        Column("WEBHOOK", lambda found, _: found.webhook, is_optional=True),
    ),
)
