"""``rota explain``: why a job ran, or did not run, at a time."""

import click

from rota.client.cli.display.show import Column, Look, show_many
from rota.client.cli.human import absolute
from rota.client.cli.inputs.options import (
    as_time,
    connect,
    examples,
    format_option,
    job_argument,
    namespace_option,
    url_option,
)
from rota.wire.documents import CauseView


def _look() -> Look[CauseView]:
    return Look(
        name=lambda cause: cause.code,
        columns=(
            Column("CODE", lambda cause, _: cause.code),
            Column("TIME (UTC)", lambda cause, _: absolute(cause.at), is_optional=True),
            Column("CAUSE", lambda cause, _: cause.cause),
            Column("TO CHANGE IT", lambda cause, _: cause.change, is_optional=True),
        ),
    )


@click.command(
    "explain",
    epilog=examples(
        "rota explain report --at 2027-01-04T00:00:00Z",
        'rota explain report --at "2027-01-04 03:00" -o json',
    ),
)
@job_argument
@click.option(
    "--at",
    "text",
    metavar="TIME",
    required=True,
    callback=as_time,
    help="The time, past or future; a duration, such as 2h, is before now.",
)
@namespace_option
@format_option
@url_option
def explain(job: str, *, text: str, namespace: str | None, form: str) -> None:
    """Show why a job ran, did not run, will run or will not run at a time.

    Each line is a cause, with its time and the smallest change that would alter it.
    """
    with connect() as client:
        found = client.explain(job, namespace=namespace, at=text)
    show_many(found.causes, _look(), form)
