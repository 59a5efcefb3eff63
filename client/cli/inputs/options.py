"""Options of several commands, and their values."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, time
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rota.client.cli.human import now
from rota.client.cli.inputs.settings import keep_flag, read_profiles, value_of
from rota.core.timing.instants import (
    SECOND,
    Instant,
    format_instant,
    from_datetime,
    parse_duration,
    parse_instant,
    to_datetime,
)
from rota.wire.statuses import status_word

if TYPE_CHECKING:  # No cycle is dodged: help texts do not load an HTTP library.
    from rota.client.async_client import AsyncClient
    from rota.client.client import Client

C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., Any])  # Any: options fit whatever command

REPEATS_MAX = 2
"""Connection attempts before a missing node is reported; few, because a user waits."""
COMPLETION_S = 0.5
"""Maximum delay of a completion."""
COMPLETIONS_MAX = 200
FORM = "rota.form"
"""Key of the value of ``--output``, among the values of a context."""
FORMATS = ("table", "wide", "json", "jsonl", "yaml", "name")


def examples(*lines: str) -> str:
    """Return the end of a help text: examples, one a line."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def connect() -> "Client":
    """Return a client of the node in flags, environment and profile.

    Raises:
        click.UsageError: They name no valid node.
    """
    from rota.client.client import Client

    return _made(Client)


def connect_async() -> "AsyncClient":
    """Return a client as `connect` does, for an event loop."""
    from rota.client.async_client import AsyncClient

    return _made(AsyncClient)


def _made(kind: Callable[..., C]) -> C:
    url, timeout = value_of("url"), value_of("timeout")
    try:
        timeout_s = seconds_of(timeout.text)
    except ValueError as error:
        raise click.UsageError(f"{error} ({timeout.source})") from error
    try:
        return kind(url.text, timeout_s=timeout_s, repeats_max=REPEATS_MAX)
    except ValueError as error:
        raise click.UsageError(f"{error} ({url.source})") from error


def url_option(command: F) -> F:
    """Add ``--url``, ``--request-timeout`` and ``--profile``."""
    for option in (
        click.option(
            "--request-timeout",
            metavar="DURATION",
            expose_value=False,
            callback=keep_flag,
            help="Timeout of a request.  [default: $ROTA_TIMEOUT or 30s]",
        ),
        profile_option,
        click.option(
            "--url",
            metavar="URL",
            expose_value=False,
            callback=keep_flag,
            help="URL of a node; several with commas.  "
            "[default: $ROTA_URL or http://127.0.0.1:7400]",
        ),
    ):
        command = option(command)
    return command


def profile_option(command: F) -> F:
    """Add ``--profile``."""
    return click.option(
        "--profile",
        metavar="NAME",
        expose_value=False,
        # Other options get their defaults from it.
        is_eager=True,
        callback=keep_flag,
        shell_complete=complete_profile,
        help="See `rota config`.  [default: $ROTA_PROFILE or as chosen]",
    )(command)


def namespace_option(command: F) -> F:
    """Add ``--namespace``; None if nothing sets it."""
    return click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        default=lambda: value_of("namespace").text or None,
        callback=keep_flag,
        help="Namespace of jobs that are named without one.  [default: $ROTA_NAMESPACE or default]",
    )(command)


def everywhere_option(command: F) -> F:
    """Add ``--all-namespaces``, passed as *is_everywhere*."""
    return click.option(
        "-A", "--all-namespaces", "is_everywhere", is_flag=True, help="All namespaces."
    )(command)


def format_option(command: F) -> F:
    """Add ``--output``, passed as *form*: any of `FORMATS`."""
    return output_option(FORMATS)(command)


def output_option(forms: Sequence[str]) -> Callable[[F], F]:
    """Return a decorator for ``--output``, passed as *form*: one of *forms*; default: the first."""

    def default() -> str:
        found = value_of("output")
        # The value for all commands may be one that this command does not have.
        is_other = found.text in FORMATS and found.text not in forms
        return forms[0] if is_other else found.text

    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(forms),
        metavar="FORM",
        default=default,
        # Errors in other options are reported in this form.
        is_eager=True,
        callback=_keep_form,
        help=f"{', '.join(forms[:-1])} or {forms[-1]}.  [default: $ROTA_OUTPUT or {forms[0]}]",
    )


def _keep_form(ctx: click.Context, param: click.Parameter, form: str) -> str:
    del param
    ctx.meta[FORM] = form
    return form


def dry_run_option(command: F) -> F:
    """Add ``--dry-run``, passed as *is_dry*."""
    return click.option(
        "--dry-run", "is_dry", is_flag=True, help="Check and show the effect; change nothing."
    )(command)


def job_argument(command: F) -> F:
    """Add the argument JOB, with completion."""
    return click.argument("job", shell_complete=complete_job)(command)


def execution_argument(command: F) -> F:
    """Add the argument EXECUTION: an id, ``@latest`` or ``JOB@latest``."""
    return click.argument("execution", shell_complete=complete_execution)(command)


def executions_argument(command: F) -> F:
    """Add the argument EXECUTION..., passed as *named*."""
    return click.argument(
        "named",
        metavar="EXECUTION...",
        nargs=-1,
        required=True,
        shell_complete=complete_execution,
    )(command)


def complete_job(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the jobs whose names begin with *incomplete*.

    Jobs of the current namespace are named without it, others after it was typed.

    Raises:
        RotaError, click.UsageError: No node answers in time; the shell ignores it.
    """
    del param
    from rota.client.client import Client

    namespace, slash, name = incomplete.rpartition("/")
    with ctx.scope(cleanup=False):
        typed = ctx.params.get("namespace") or value_of("namespace").text
        url = value_of("url").text
    within = namespace if slash else typed or "default"
    with Client(url, timeout_s=COMPLETION_S, repeats_max=0) as client:
        jobs = client.jobs(namespace=within, q=name or None, limit=COMPLETIONS_MAX)
        found = [job.name for job in jobs if job.name.startswith(name)]
    return _words(f"{within}/{each}" if slash else each for each in found)


def complete_execution(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return ``JOB@latest`` for the jobs that match *incomplete*; ids are not completed."""
    if incomplete.startswith("@"):
        return ["@latest"]
    job = incomplete.partition("@")[0]
    return [f"{each}@latest" for each in complete_job(ctx, param, job)]


def complete_node(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the nodes whose ids begin with *incomplete*.

    Raises:
        RotaError, click.UsageError: No node answers in time; the shell ignores it.
    """
    del param
    from rota.client.client import Client

    with ctx.scope(cleanup=False):
        url = value_of("url").text
    with Client(url, timeout_s=COMPLETION_S, repeats_max=0) as client:
        ids = [node.node_id for node in client.cluster().nodes]
    return _words(each for each in ids if each.startswith(incomplete))


def complete_profile(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the profiles whose names begin with *incomplete*."""
    del ctx, param
    return [name for name in read_profiles().by_name if name.startswith(incomplete)]


def _words(found: Iterable[str]) -> list[str]:
    """Return those of a node's answers that are safe as completions."""
    return [each for each in found if each.isprintable() and " " not in each]


class StatusChoice(click.Choice[str]):
    """A state of executions, tasks or jobs; ``succeeded`` is accepted as ``success``."""

    def convert(
        self,
        value: Any,  # Any: as in click
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str:
        """Return the state that *value* denotes."""
        return super().convert(status_word(value), param, ctx)


def as_time(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """Return a time as RFC 3339 text; a duration is counted back from now."""
    if text is None:
        return None
    for read in (parse_instant, _local_time, _time_ago):
        with suppress(ValueError, OverflowError):
            return format_instant(read(text))
    detail = (
        f"{text!r} is neither a time such as 2027-01-01T00:00:00Z, nor a local time such as "
        "14:30 or '2027-01-01 14:30', nor a duration before now such as 90m or 2d"
    )
    raise click.BadParameter(detail, ctx, param)


def _local_time(text: str) -> Instant:
    """Return a date, a date with a time, or a time of today, in the zone of this machine.

    Raises:
        ValueError: It is none, or an instant that no clock in that zone shows.
    """
    if not set(text) & set(":-") or text.startswith("-"):
        raise ValueError(f"{text!r} is not a local time")
    today = to_datetime(now()).astimezone()
    try:
        naive = datetime.combine(today.date(), time.fromisoformat(text))
    except ValueError:
        naive = datetime.fromisoformat(text)
    # The same limits as those of other times.
    return parse_instant(format_instant(from_datetime(naive.astimezone())))


def _time_ago(text: str) -> Instant:
    return Instant(now() - parse_duration(text))


def as_seconds(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """Return a duration as seconds; a bare number is seconds."""
    if text is None:
        return None
    try:
        return seconds_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


def seconds_of(text: str) -> float:
    """Return a duration in seconds; a bare number is seconds.

    Raises:
        ValueError: It is neither a duration nor a number.
    """
    return parse_duration(f"{text}s" if text[-1:].isdecimal() else text) / SECOND
