"""``rota trigger``: run a job now."""

from typing import Any

import click

from rota.client.cli.inputs.options import (
    as_time,
    connect,
    dry_run_option,
    examples,
    format_option,
    job_argument,
    namespace_option,
    url_option,
)
from rota.client.cli.inputs.parameters import (
    check_names,
    members_of,
    parameters_options,
    with_members,
)
from rota.client.cli.jobs.awaited_end import Waiting, show_started, waiting_options
from rota.wire.documents import Json


@click.command(
    epilog=examples(
        "rota trigger report",
        "rota trigger report --wait --timeout 10m",
        "rota trigger report --follow",
        "rota trigger report --fire-time 2027-01-01T02:00:00Z",
        "rota trigger report -p day=2027-01-01 -p dry=true",
        """rota trigger report --parameters '{"day": "2027-01-01"}'""",
        "id=$(rota trigger report -o name)",
    )
)
@job_argument
@waiting_options
@parameters_options
@click.option(
    "--idempotency-key",
    metavar="KEY",
    help="A repetition with the same key returns the same execution.",
)
@click.option(
    "--fire-time",
    metavar="TIME",
    callback=as_time,
    help="The time for which the execution works; a duration, such as 1d, is before now.",
)
@dry_run_option
@namespace_option
@format_option
@url_option
def trigger(
    job: str,
    *,
    overrides: tuple[str, ...],
    parameters: Json,
    idempotency_key: str | None,
    fire_time: str | None,
    is_dry: bool,
    namespace: str | None,
    form: str,
    **waiting: Any,  # of `waiting_options`
) -> int:
    """Start an execution of a job now."""
    wait, members = Waiting(is_dry=is_dry, **waiting), members_of(overrides)
    with connect() as client:
        if members and parameters is None:
            definition = client.job(job, namespace=namespace).definition or {}
            parameters = definition.get("parameters")
            check_names(members, parameters)
        made = client.trigger(
            job,
            namespace=namespace,
            parameters=with_members(parameters, members),
            fire_time=fire_time,
            idempotency_key=idempotency_key,
            dry_run=is_dry,
        )
        return show_started(client, made, wait, form)
