"""Error messages and exit statuses of commands: what failed, where, and the remedy."""

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

import click
import msgspec
from msgspec.structs import replace

from rota.client.app.errors import InvalidTask, ModuleNotImported, NothingScheduled
from rota.client.cli.access.auth import NoToken
from rota.client.cli.access.grants import NoGrant
from rota.client.cli.cluster.node import NotDrained
from rota.client.cli.display.printing import say
from rota.client.cli.documents.kinds import kind_of
from rota.client.cli.inputs.execution_names import NoExecution
from rota.client.cli.inputs.options import connect
from rota.client.cli.inputs.settings import InvalidConfig, value_of
from rota.client.cli.secrets.key_rings import KeyRingRefused
from rota.client.client import Client
from rota.client.definitions import InvalidFile
from rota.client.dev.local_etcd import EtcdNotInstalled, EtcdNotStarted
from rota.client.dev.local_node import NodeNotInstalled, NodeNotStarted, TokenNotAccepted
from rota.client.dev.token_files import TokenNotStored
from rota.client.errors import (
    Conflict,
    Invalid,
    InvalidTls,
    InvalidToken,
    NodeFailed,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    NotYetRunning,
    OutputBroken,
    RequestFailed,
    TooBusy,
    Unreachable,
    WaitTimedOut,
)
from rota.client.extras import NotInstalled
from rota.client.paging import PAGE
from rota.client.transport.endpoints import DEFAULT_URL
from rota.core.errors import Refused, RotaError
from rota.core.near_names import did_you_mean
from rota.wire.documents import FieldProblem, ProblemView

EX_BUG = 70

STATUSES: tuple[tuple[type[RotaError], int], ...] = (
    (NotFound, 3),
    (NoExecution, 3),
    (NoGrant, 3),
    (NotAllowed, 4),
    (NotAuthenticated, 10),
    (NoToken, 10),
    (Conflict, 5),
    (Unreachable, 6),
    (TooBusy, 6),
    (NodeFailed, 6),
    (NodeNotStarted, 6),
    (TokenNotAccepted, 6),
    (TokenNotStored, 6),
    (OutputBroken, 6),
    (WaitTimedOut, 7),
    (NotYetRunning, 7),
    (NotDrained, 7),
    (Invalid, 9),
    (InvalidFile, 9),
    (InvalidConfig, 9),
    (InvalidToken, 9),
    (InvalidTask, 9),
    (KeyRingRefused, 9),
    (ModuleNotImported, 9),
    (NothingScheduled, 9),
    (InvalidTls, 9),
    (Refused, 9),
    (NodeNotInstalled, 2),
    (EtcdNotInstalled, 2),
    (NotInstalled, 2),
    (EtcdNotStarted, 6),
)

HINTS = {
    "past_schedule": "for an @at, `--misfire latest` runs it at once, `--misfire skip` records it "
    "as missed",
    "job_exists": "`rota jobs diff` shows the differences, `rota jobs apply` replaces the job",
    "no_execution": "`rota trigger JOB` starts one",
    "wait_timed_out": "unfinished executions continue; wait again with `rota executions wait`",
    "unauthenticated": "the token of a profile is sent to the url of that profile only; an "
    "administrator creates tokens with `rota key create`",
    "no_token": "`rota login` stores one, and a node of `rota dev` on this machine has one; "
    "--token-file and $ROTA_TOKEN_FILE name a file",
    "no_grant": "`rota get bindings -o yaml` lists the roles of all subjects",
    "forbidden": "`rota auth whoami` shows your roles",
    "no_such_path": "another program, or an older rota, may be at this URL",
}

LOOK_S = 2.0
"""The maximum delay of the error by the search, in seconds."""
MISSING = re.compile(r"(?:there is no|the) (\w+) '([^']+)'")
NO_NODE_HERE = "start a node with `rota dev`, or give the URL of another with --url or $ROTA_URL"
NO_NODE_THERE = (
    "check that the node is running and that this is its address; give other URLs with --url or "
    "$ROTA_URL"
)


def report(error: Exception) -> int:
    """Print an error and return its exit status.

    Raises:
        Exception: *error* itself if it is not a `RotaError`; it is then a bug.
    """
    if not isinstance(error, RotaError):
        raise error
    for line in _lines(error):
        say(line)
    return _status(error)


def report_as_json(error: RotaError) -> int:
    """Print an error as one line: a problem document (RFC 9457) with a ``hint``, if there is one.

    Returns:
        The exit status.
    """
    say(msgspec.json.encode(document_of(error)).decode())
    return _status(error)


def document_of(error: RotaError) -> dict[str, object]:
    """Return the problem document (RFC 9457) of an error, with a ``hint`` if there is one."""
    hint = _hint(error)
    document: dict[str, object] = msgspec.to_builtins(_problem(error))
    return document | ({"hint": hint} if hint else {})


def report_usage_as_json(error: click.ClickException) -> None:
    """Print an error of the command line as one line, in the form of `report_as_json`."""
    say(msgspec.json.encode(document_of_usage(error)).decode())


def document_of_usage(error: click.ClickException) -> dict[str, object]:
    """Return the problem document of an error of the command line, or of arguments like it."""
    document: dict[str, object] = msgspec.to_builtins(
        _problem_of("wrong_usage", error.format_message())
    )
    return document


def _status(error: RotaError) -> int:
    return next((status for kind, status in STATUSES if isinstance(error, kind)), EX_BUG)


def _problem(error: RotaError) -> ProblemView:
    match error:
        case RequestFailed():
            return replace(error.problem, detail=error.detail)
        case Refused():
            errors = [FieldProblem(each.pointer, each.detail) for each in error.problems]
            return replace(_problem_of(error.code, error.detail), errors=errors)
        case _:
            return _problem_of(error.code, str(error))


def _problem_of(code: str, detail: str) -> ProblemView:
    """Return the document of an error that no node sent; its HTTP status is 0."""
    title = code.replace("_", " ").capitalize()
    return ProblemView(
        type=f"urn:rota:problem:{code}", title=title, status=0, code=code, detail=detail
    )


def _lines(error: RotaError) -> list[str]:
    lines = _message(error)
    hint = _hint(error)
    if hint:
        lines.append(f"hint: {hint}")
    if isinstance(error, NodeFailed | Unreachable) and error.request_id:
        lines.append(f"request: {error.problem.request_id}, for the node's log")
    return lines


def _hint(error: RotaError) -> str | None:
    if notes := getattr(error, "__notes__", None):
        return "; ".join(notes)
    if not isinstance(error, Unreachable) or error.problem.status:
        return HINTS.get(error.code)
    # Advice to start a node would hide that a configured cluster cannot be reached.
    is_here = error.detail.startswith(f"no answer from {DEFAULT_URL}: ")
    return NO_NODE_HERE if is_here and not error.may_have_arrived else NO_NODE_THERE


def _message(error: RotaError) -> list[str]:
    match error:
        case RequestFailed(errors=[_, *_]):
            title = error.problem.title.lower()
            where = f" in {error.file}" if error.file else ""
            fields = [f"  {each.pointer or '/'}: {each.detail}" for each in error.errors]
            return [f"error: {title}{where}", *fields]
        case RequestFailed() | Refused():
            return [f"error: {error.detail}"]
        case _:
            return [f"error: {error}"]


def add_near_names(error: RotaError) -> None:
    """Add a note with similar names of jobs, secrets or documents to *error*, if there are any.

    The first `PAGE` names are searched; those of jobs and secrets are of the same namespace.
    Nothing is added if no node answers in time, or if the caller may not list the names.
    """
    missing = MISSING.search(str(error))
    if missing is None:
        return
    kind, (namespace, slash, name) = missing[1], missing[2].rpartition("/")
    with suppress(RotaError, click.UsageError, ValueError):
        within = namespace or value_of("namespace").text or "default"
        with connect(timeout_s=LOOK_S, repeats_max=0) as client:
            names = [*islice(_names(client, kind, within), PAGE)]
        if hint := did_you_mean(name, names, prefix=f"{namespace}{slash}"):
            error.add_note(hint)


def _names(client: Client, kind: str, namespace: str) -> Iterator[str]:
    if kind == "job":
        yield from (job.name for job in client.jobs(namespace=namespace, limit=PAGE))
    elif kind == "secret":
        yield from (secret.name for secret in client.secrets(namespace=namespace))
    elif found := kind_of(kind):
        yield from (document.name for document in client.documents(found.plural))
