"""Options that several commands have, and their values."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from rota.client.cli.human import now
from rota.client.cli.inputs.settings import TOKEN_FILE_FLAG, keep_flag, read_profiles, value_of
from rota.client.cli.inputs.tokens import token_for
from rota.client.transport.endpoints import urls_of
from rota.core.model.given_durations import read_duration
from rota.core.timing.instants import (
    SECOND,
    Instant,
    format_instant,
    from_datetime,
    later,
    parse_instant,
    to_datetime,
)
from rota.wire.statuses import status_word

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.async_client import AsyncClient
    from rota.client.client import Client

C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., Any])  # Any: options apply to any command

REPEATS_MAX = 2
"""The most retries before a missing node is reported; they are few, because a user waits."""
COMPLETION_S = 0.5
"""The maximum delay of a completion, in seconds."""
COMPLETIONS_MAX = 200
FORM = "rota.form"
"""The key, in the values of a context, of the value of ``--output``."""
FORMATS = ("table", "wide", "json", "jsonl", "yaml", "name")


def examples(*lines: str) -> str:
    """Return the end of a help text: examples, one per line."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def connect(*, timeout_s: float | None = None, repeats_max: int = REPEATS_MAX) -> "Client":
    """Return a client of the nodes that flags, environment or profile name, with their token.

    Args:
        timeout_s: The time limit of a call; None for the one of the settings.
        repeats_max: The most retries at each node.

    Raises:
        click.UsageError: The URLs or the timeout are invalid.
        InvalidToken: The token is malformed, or its file cannot be read.
    """
    from rota.client.client import Client

    return _made(Client, timeout_s=timeout_s, repeats_max=repeats_max)


def connect_async() -> "AsyncClient":
    """Return a client as `connect` does, for an event loop."""
    from rota.client.async_client import AsyncClient

    return _made(AsyncClient)


def _made(
    kind: Callable[..., C], *, timeout_s: float | None = None, repeats_max: int = REPEATS_MAX
) -> C:
    urls = urls_in_use()
    in_use = token_for(urls)
    return kind(
        urls,
        token=in_use.token,
        token_file=in_use.token_file,
        **tls_in_use()._asdict(),
        timeout_s=timeout_in_use() if timeout_s is None else timeout_s,
        repeats_max=repeats_max,
    )


def urls_in_use(*, is_new: bool = False) -> tuple[str, ...]:
    """Return the addresses of the current command; *is_new* as in `value_of`.

    Raises:
        click.UsageError: An address is invalid.
    """
    url = value_of("url", is_new=is_new)
    try:
        return urls_of(url.text)
    except ValueError as error:
        raise click.UsageError(f"{error} ({url.source})") from error


class TlsInUse(NamedTuple):
    """The arguments of a client for TLS.

    Attributes:
        ca: The file of the authorities of nodes; None for none.
        cert: The file of the client's certificate; None for none.
        key: The file of its key; None for none.
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None


NO_FILES = TlsInUse()


def tls_in_use(*, is_new: bool = False) -> TlsInUse:
    """Return the files of TLS of the current command; *is_new* as in `value_of`."""
    return TlsInUse(*(value_of(name, is_new=is_new).text or None for name in TlsInUse._fields))


def timeout_in_use(*, is_new: bool = False) -> float:
    """Return the time limit of a call in seconds; *is_new* as in `value_of`.

    Raises:
        click.UsageError: The duration is invalid.
    """
    timeout = value_of("timeout", is_new=is_new)
    try:
        return seconds_of(timeout.text)
    except ValueError as error:
        raise click.UsageError(f"{error} ({timeout.source})") from error


class ConnectionOption(click.Option):
    """An option of every command with a connection; the help of the program alone shows it."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the line of the help text; None in the help of a command."""
        return super().get_help_record(ctx) if ctx.parent is None else None


CONNECTION = {
    "--key": ("FILE", "Key of this certificate.  [$ROTA_KEY]"),
    "--cert": ("FILE", "Certificate of the client.  [$ROTA_CERT]"),
    "--ca": ("FILE", "Authorities of nodes' certificates.  [$ROTA_CA]"),
    "--request-timeout": ("TIME", "Limit of a request.  [$ROTA_TIMEOUT or 30s]"),
    TOKEN_FILE_FLAG: ("FILE", "File with the token.  [$ROTA_TOKEN_FILE]"),
    "--url": ("URL", "URLs of nodes, with commas.  [$ROTA_URL]"),
}
"""The options of a connection, last first, with their values and help texts."""


def url_option(command: F) -> F:
    """Add ``--url``, the files of token and TLS, ``--request-timeout`` and ``--profile``."""
    for name, (metavar, text) in CONNECTION.items():
        command = click.option(
            name,
            cls=ConnectionOption,
            metavar=metavar,
            expose_value=False,
            callback=keep_flag,
            help=text,
        )(command)
    return profile_option(command, cls=ConnectionOption)


def profile_option(command: F, cls: type[click.Option] = click.Option) -> F:
    """Add ``--profile``."""
    return click.option(
        "--profile",
        cls=cls,
        metavar="NAME",
        expose_value=False,
        # Other options get their defaults from the profile.
        is_eager=True,
        callback=keep_flag,
        shell_complete=complete_profile,
        help="Profile of `rota config` to use.  [$ROTA_PROFILE]",
    )(command)


def namespace_option(command: F) -> F:
    """Add ``--namespace``, passed as *namespace*; None if neither flag nor setting gives it."""
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
    """Return a decorator for ``--output``, passed as *form*: one of *forms*, or else the first."""

    def default() -> str:
        found = value_of("output")
        # The value for all commands may be a form that this command does not have.
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
        "--dry-run",
        "is_dry",
        is_flag=True,
        help="Make all checks and show the effect, but change nothing.",
    )(command)


def job_argument(command: F) -> F:
    """Add the argument JOB, with completion."""
    return click.argument("job", shell_complete=complete_job)(command)


def execution_argument(command: F) -> F:
    """Add the argument EXECUTION, a name as of `execution_id_of`."""
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
    """Return the names of the jobs that begin with *incomplete*.

    Jobs of the current namespace are completed without it; jobs of another namespace are completed
    once ``namespace/`` was typed.

    Raises:
        RotaError, click.UsageError: No node answers in time; completion then returns nothing.
    """
    del param
    namespace, slash, name = incomplete.rpartition("/")
    with ctx.scope(cleanup=False):
        typed = ctx.params.get("namespace") or value_of("namespace").text
        briefly = connect(timeout_s=COMPLETION_S, repeats_max=0)
    within = namespace if slash else typed or "default"
    with briefly as client:
        # One-off jobs, such as those of `rota run`, are no names that people type.
        jobs = client.jobs(
            namespace=within, q=name or None, is_one_off=False, limit=COMPLETIONS_MAX
        )
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
        RotaError, click.UsageError: No node answers in time; completion then returns nothing.
    """
    del param
    with ctx.scope(cleanup=False):
        briefly = connect(timeout_s=COMPLETION_S, repeats_max=0)
    with briefly as client:
        ids = [node.node_id for node in client.cluster().nodes]
    return _words(each for each in ids if each.startswith(incomplete))


def complete_profile(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the profiles whose names begin with *incomplete*."""
    del ctx, param
    return [name for name in read_profiles().by_name if name.startswith(incomplete)]


def _words(found: Iterable[str]) -> list[str]:
    """Return the words that are safe as completions, of those that a node returned."""
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
    """Return a time as RFC 3339 text; a duration is counted back from now.

    Raises:
        click.BadParameter: The text is neither a time nor a duration.
    """
    if text is None:
        return None
    try:
        return time_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


def time_of(text: str) -> str:
    """Return a time as RFC 3339 text; a duration is counted back from now.

    Raises:
        ValueError: The text is neither a time nor a duration.
    """
    for read in (parse_instant, _local_time, _time_ago, _time_ahead):
        with suppress(ValueError, OverflowError):
            return format_instant(read(text))
    raise ValueError(
        f"{text!r} is neither a time such as 2027-01-01T00:00:00Z, nor a local time such as "
        "14:30 or '2027-01-01 14:30', nor a duration before now such as 90m or 2d, nor one from "
        "now on such as 'in 2d'"
    )


def _local_time(text: str) -> Instant:
    """Return a date, a date with a time, or a time of today, in the zone of this machine.

    Raises:
        ValueError: *text* is not such a time, or no clock in that zone ever shows it.
    """
    if not set(text) & set(":-") or text.startswith("-"):
        raise ValueError(f"{text!r} is not a local time")
    today = to_datetime(now()).astimezone()
    try:
        naive = datetime.combine(today.date(), time.fromisoformat(text))
    except ValueError:
        naive = datetime.fromisoformat(text)
    # Formatted and parsed again, so that the limits of other times apply.
    return parse_instant(format_instant(from_datetime(naive.astimezone())))


def _time_ago(text: str) -> Instant:
    return Instant(now() - read_duration(text))


def _time_ahead(text: str) -> Instant:
    word, _, duration = text.partition(" ")
    if word != "in":
        raise ValueError(text)
    return later(now(), read_duration(duration))


def as_seconds(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """Return a duration in seconds; a bare number is seconds.

    Raises:
        click.BadParameter: The text is neither a duration nor a number.
    """
    if text is None:
        return None
    try:
        return seconds_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


def seconds_of(text: str) -> float:
    """Return a duration in seconds; a bare number is seconds.

    Raises:
        ValueError: *text* is neither a duration nor a number.
    """
    return read_duration(f"{text}s" if text[-1:].isdecimal() else text) / SECOND
