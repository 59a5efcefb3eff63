"""``rota hooks``: the test of a job's webhooks."""

import click

from rota.client.cli.display.printing import out, say
from rota.client.cli.inputs.options import (
    connect,
    examples,
    job_argument,
    namespace_option,
    url_option,
)


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
    for each in found:
        out(f"{each.hook}: {each.event} to {each.receiver}: {each.reason or 'accepted'}")
    if not found:
        say(f"{job} has no such webhook")
    if not found or not all(each.is_accepted for each in found):
        raise click.exceptions.Exit(1)
