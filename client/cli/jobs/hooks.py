"""``rota hooks``: the test of a job's webhooks."""

from collections.abc import Mapping
from typing import Any

import click

from rota.client.cli.display.printing import out, say
from rota.client.cli.inputs.options import (
    connect,
    examples,
    job_argument,
    namespace_option,
    url_option,
)
from rota.wire.documents import HOOK_FIELDS


@click.group(epilog=examples("rota hooks test report"))
def hooks() -> None:
    """Test the webhooks of jobs."""


@hooks.command("test", epilog=examples("rota hooks test report", "rota hooks test report --hook 2"))
@job_argument
@click.option(
    "--hook",
    type=click.IntRange(1, 20),
    help="Number of one hook, in the order of onFailure, onSuccess, onRecovery, onLate.",
)
@namespace_option
@url_option
def check_hooks(job: str, *, hook: int | None, namespace: str | None) -> None:
    """Send a sample of each webhook of a job once, and show the answers.

    The exit status is 1 if a receiver does not accept its webhook.
    """
    with connect() as client:
        found = client.test_hooks(job, namespace=namespace, hook=hook)
        definition = {} if found else client.job(job, namespace=namespace).definition or {}
    for each in found:
        out(f"{each.hook}: {each.event} to {each.receiver}: {each.reason or 'accepted'}")
    if not found:
        say(why_no_webhook(job, definition, hook))
    if not found or not all(each.is_accepted for each in found):
        raise click.exceptions.Exit(1)


def why_no_webhook(job: str, definition: Mapping[str, Any], number: int | None) -> str:
    """Return why there is no webhook to test.

    Args:
        job: The name of the job.
        definition: Its definition.
        number: The number of the hook that was asked for, from 1; None for all.
    """
    # Any: a definition is plain JSON.
    hooks: list[Any] = [each for field in HOOK_FIELDS for each in definition.get(field, [])]
    if number is None and hooks:
        return f"all hooks of {job} trigger jobs, and none sends a webhook; trigger those jobs"
    if number is None:
        return f"{job} has no webhook"
    if number > len(hooks):
        others = f"its hooks are numbered from 1 to {len(hooks)}" if hooks else "it has no hooks"
        return f"{job} has no hook {number}; {others}"
    target = hooks[number - 1].get("job")
    return (
        f"hook {number} of {job} triggers the job {target}, and sends no webhook; "
        f"`rota trigger {target}` runs that job"
    )
