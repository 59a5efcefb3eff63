"""``rota jobs create`` and ``diff``: jobs from definitions, in flags or in files."""

import difflib
import re
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from rota.client.cli.display.printing import Piece, Styled, out, say
from rota.client.cli.display.show import Counter, as_yaml, is_coloured, show_many
from rota.client.cli.display.table_columns import CREATED, JOB
from rota.client.cli.inputs.files import STANDARD_INPUT, expanded
from rota.client.cli.inputs.options import (
    connect,
    dry_run_option,
    examples,
    format_option,
    namespace_option,
    url_option,
)
from rota.client.cli.inputs.parameters import members_of, with_members
from rota.client.cli.inputs.program_words import ProgramCommand
from rota.wire.documents import HOOK_FIELDS, ITEMS_MAX, CreatedItem, JobView, ProblemView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client
    from rota.client.errors import RequestFailed

Fields = dict[str, Any]
"""A job's document: Any, because the node validates it."""


class FileFields(Fields):
    """A job's document that comes from a file.

    Attributes:
        file: The file, as the user named it.
    """

    file = ""


REFUSALS_MAX = 20
"""The most refused jobs that are printed; further ones are only counted."""
EX_DIFFERENT = 8

files_option = click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    required=True,
    help="Jobs in YAML or JSON, one a document, or a folder of such files; - is standard input. "
    "Repeatable.",
)


@click.command(
    "create",
    cls=ProgramCommand,
    epilog=examples(
        'rota jobs create hello --schedule "*/5 * * * *" -- echo hello',
        "rota jobs create sync --schedule @hourly --retries 3 -- 'fetch | load'",
        "rota jobs create late --start-deadline 5m --execution-timeout 1h --cwd . -- ./report",
        "rota jobs create backup --on-failure https://hooks.example.com/x --cwd . -- ./backup",
        "rota jobs create sums --sandbox strict --memory 2GiB -- sha256sum /usr/bin/env",
        "rota jobs create thumbs --sandbox strict --bind /srv/img:rw --cwd . -- ./thumbs",
        "rota jobs create --type image.render --parameters '{\"width\": 640}'",
        "rota jobs create -f report.yaml",
        "rota jobs create -f report.yaml -f flaky.yaml --dry-run",
    ),
)
@click.argument("name", required=False)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    help="Jobs in YAML or JSON, one a document, or a folder of such files; - is standard input. "
    "Repeatable.",
)
@click.option(
    "--schedule",
    "schedules",
    metavar="TEXT",
    multiple=True,
    help='Schedule: "*/5 * * * *", "@every 90s", "@daily"; once: "@at 2027-01-01T09:00:00Z", '
    '"@at 2027-01-01T09:00+01:00", or "@at 2027-01-01T09:00" for that local time in --timezone. '
    "Repeatable; without it, when triggered.",
)
@click.option("--timezone", metavar="ZONE", help="Time zone of the schedules.  [default: UTC]")
@click.option(
    "--after",
    "dependencies",
    metavar="JOB",
    multiple=True,
    help="Run after this job has succeeded; if repeated, after all of these jobs have.",
)
@click.option("--retries", type=int, help="Number of retries after a failed attempt.")
@click.option("--timeout", metavar="DURATION", help="Timeout of an attempt, such as 10m.")
@click.option(
    "--start-deadline",
    "startDeadline",
    metavar="DURATION",
    help="Longest wait of an execution for its first attempt; then it fails.",
)
@click.option(
    "--execution-timeout",
    "executionTimeout",
    metavar="DURATION",
    help="Timeout of a whole execution, with retries and all tasks.",
)
@click.option(
    "--on-failure",
    "onFailure",
    metavar="TARGET",
    multiple=True,
    help="Posts a webhook to this URL, or triggers this job, when an execution failed. Repeatable.",
)
@click.option(
    "--on-success",
    "onSuccess",
    metavar="TARGET",
    multiple=True,
    help="The same when one succeeded.",
)
@click.option(
    "--on-recovery",
    "onRecovery",
    metavar="TARGET",
    multiple=True,
    help="The same when one succeeded after one that failed.",
)
@click.option(
    "--on-late",
    "onLate",
    metavar="TARGET",
    multiple=True,
    help="The same when one has not ended --late-after its fire time, or the fire time was missed.",
)
@click.option(
    "--late-after", "lateAfter", metavar="DURATION", help="Time for --on-late, such as 30m."
)
@click.option(
    "--misfire",
    type=click.Choice(("all", "latest", "skip")),
    help="Fire times missed in an outage that still run; required for an @at in the past.  "
    "[default: latest]",
)
@click.option(
    "--overlap",
    type=click.Choice(("allow", "skip", "queue_one")),
    help="Behaviour if it fires while an earlier execution runs.  [default: allow]",
)
@click.option(
    "--consistency",
    type=click.Choice(("strict", "available")),
    help="available: fires without a primary, too, possibly twice.  [default: strict]",
)
@click.option(
    "--priority",
    type=click.IntRange(-100, 100),
    help="Its tasks get free slots before those of lower priorities.  [default: 0]",
)
@click.option(
    "--env", metavar="K=V", multiple=True, help="Environment variable of its processes; repeatable."
)
@click.option(
    "--cwd",
    metavar="DIR",
    help="Working directory; a relative path begins in the current directory.",
)
@click.option(
    "--python",
    metavar="FUNCTION",
    help="Call module:function instead of a command.",
)
@click.option(
    "--image",
    "container",
    metavar="IMAGE",
    help="Run its command, or the command of the image, in a container.",
)
@click.option(
    "--sandbox",
    type=click.Choice(("none", "default", "strict")),
    help="Sandbox of its command.  [default: none]",
)
@click.option(
    "--bind",
    "binds",
    metavar="SRC[:DST][:rw]",
    multiple=True,
    help="File or folder visible in its sandbox or container; writable with :rw. Repeatable.",
)
@click.option(
    "--network/--no-network",
    default=None,
    help="Network access of its sandbox; --no-network also applies to a container.",
)
@click.option("--cpu", type=float, help="Limit of processors, such as 0.5.")
@click.option("--memory", metavar="SIZE", help="Limit of memory, such as 512MiB.")
@click.option("--pids", type=int, help="Limit of processes and threads.")
@click.option(
    "--type",
    "type",
    metavar="TYPE",
    help="Job type, which has the command and more; without a name the job runs once, immediately.",
)
@click.option(
    "--parameters", metavar="JSON", help="Parameters of its executions, such as '{\"width\": 640}'."
)
@click.option(
    "-p",
    "--parameter",
    "members",
    metavar="K=V",
    multiple=True,
    help="A member of its parameters; V is JSON, or otherwise text. Repeatable.",
)
@click.option("--label", "labels", metavar="K=V", multiple=True, help="Label; repeatable.")
@click.option("--description", metavar="TEXT", help="Description of the job.")
@dry_run_option
@namespace_option
@format_option
@url_option
def create_job(
    name: str | None,
    command: tuple[str, ...],
    *,
    files: tuple[str, ...],
    namespace: str | None,
    is_dry: bool,
    form: str,
    **given: Any,  # fields of a job, as flags
) -> int:
    """Create a job from flags, or jobs from files.

    The command follows two dashes: several words are a program and its arguments, a single one
    is a line for the shell. Creating an identical job again succeeds.
    """
    from rota.client.definitions import with_whole_paths

    if files:
        if name is not None or any(value not in (None, ()) for value in given.values()):
            raise click.UsageError(
                "a job comes from flags or from a file, not both; omit --file or the flags"
            )
        definitions = definitions_in(files, namespace)
    elif given["type"] is None and (
        name is None or not (command or given["python"] or given["container"])
    ):
        raise click.UsageError(
            "name a job and, after two dashes, its command: rota jobs create hello -- echo hello"
        )
    else:
        definitions = [_in(namespace, with_whole_paths(fields_of(name, command, given), Path()))]
    with connect() as client:
        if len(definitions) == 1:
            with naming_file(definitions[0]):
                job = client.create_job(definitions[0], dry_run=is_dry)
            show_many([job], JOB, form)
            say_warnings([job])
            items: list[CreatedItem] = []
        else:
            items = _create_many(client, definitions, is_dry=is_dry)
            show_many([each for each in items if each.error is None], CREATED, form)
    say_if_dry(is_dry=is_dry)
    return _tell_refused(definitions, items)


@click.command(
    "diff",
    epilog=examples(
        "rota jobs diff -f report.yaml",
        "rota jobs diff -f report.yaml || rota jobs apply -f report.yaml",
    ),
)
@files_option
@namespace_option
@url_option
def diff_jobs(files: tuple[str, ...], namespace: str | None) -> int:
    """Show how jobs on the node differ from files; exit with 8 if they do.

    Both are shown as the node parses them, with the defaults of omitted fields.
    """
    is_different = False
    with connect() as client:
        for definition in definitions_in(files, namespace):
            before = job_before(client, definition)
            with naming_file(definition):
                after = client.put_job(definition, dry_run=True)
            lines = _difference(before, after)
            is_different = is_different or bool(lines)
            for line in lines:
                out(line)
    return EX_DIFFERENT if is_different else 0


def definitions_in(files: Iterable[str], namespace: str | None) -> list[Fields]:
    """Return the jobs that *files* define, in *namespace* unless they name their own.

    A job comes after those that it depends on, since a node refuses unknown dependencies.
    A relative ``cwd`` begins in the folder of its file, on standard input in the current folder.
    Of a job as `rota jobs show` prints it, the definition is taken.
    """
    from rota.client.definitions import parse_definitions, read_definitions, with_whole_paths

    definitions: list[Fields] = []
    for file in expanded(files):
        if file == STANDARD_INPUT:
            found, folder = parse_definitions(sys.stdin.read(), "standard input"), Path()
        else:
            found, folder = read_definitions(Path(file)), Path(file).parent
        for each in found:
            if "kind" in each and not is_shown(each):
                raise click.UsageError(
                    f"{file} has a document of the kind {each['kind']!r}, not a job; apply it with "
                    f"rota apply -f {file}"
                )
            given = _definition_of(each) if is_shown(each) else each
            definition = FileFields(_in(namespace, with_whole_paths(given, folder)))
            definition.file = "standard input" if file == STANDARD_INPUT else file
            definitions.append(definition)
    return _dependencies_first(definitions)


def is_shown(fields: Fields) -> bool:
    """Return True if *fields* are those of a job as a node shows it."""
    return {"jobId", "status", "namespace"} <= fields.keys()


def _definition_of(shown: Fields) -> Fields:
    definition = shown.get("definition")
    if not isinstance(definition, dict):
        raise click.UsageError(
            f"the job {shown.get('name')!r} is from a list, which has no definitions; use "
            f"rota jobs show {shown.get('name')} -o yaml"
        )
    return {"namespace": shown["namespace"], **cast("Fields", definition)}


@contextmanager
def naming_file(definition: Fields) -> Generator[None]:
    """Add the file of *definition* to an error of the body of the context."""
    from rota.client.errors import RequestFailed

    try:
        yield
    except RequestFailed as error:
        error.file = file_of(definition)
        raise


def file_of(definition: Fields) -> str:
    """Return the file that *definition* comes from; empty for none."""
    return definition.file if isinstance(definition, FileFields) else ""


def _dependencies_first(definitions: list[Fields]) -> list[Fields]:
    """Return *definitions* in their order, each after its dependencies unless they form a cycle."""
    numbers = {
        full_name_of(each, each.get("name", "")): number for number, each in enumerate(definitions)
    }
    sorter = TopologicalSorter(
        {
            number: [numbers[name] for name in dependencies_of(each) if name in numbers]
            for number, each in enumerate(definitions)
        }
    )
    try:
        sorter.prepare()
    except CycleError:
        return definitions
    ordered: list[Fields] = []
    ready = list(sorter.get_ready())
    heapify(ready)
    while ready:
        number = heappop(ready)
        ordered.append(definitions[number])
        sorter.done(number)
        for each in sorter.get_ready():
            heappush(ready, each)
    return ordered


def _in(namespace: str | None, definition: Fields) -> Fields:
    """Return a definition, in *namespace* unless it names its own."""
    return definition if namespace is None else {"namespace": namespace, **definition}


def fields_of(name: str | None, command: tuple[str, ...], given: Fields) -> Fields:
    """Return the job that flags define.

    Raises:
        click.UsageError: The flags contradict each other.
    """
    fields: Fields = {} if name is None else {"name": name}
    if command:
        fields["command"] = command[0] if len(command) == 1 else command
    fields |= {key: value for key, value in given.items() if value not in (None, ())}
    limits = {key: fields.pop(key) for key in ("cpu", "memory", "pids") if key in fields}
    if limits:
        fields["limits"] = limits
    view: Fields = {key: fields.pop(key) for key in ("binds", "network") if key in fields}
    if view:
        _show(fields, view)
    for key in ("env", "labels"):
        if key in fields:
            fields[key] = dict(pair_of(text) for text in fields[key])
    for key in HOOK_FIELDS:
        if key in fields:
            fields[key] = [_hook(target) for target in fields[key]]
    if "parameters" in fields:
        fields["parameters"] = _json(fields["parameters"])
    if members := members_of(fields.pop("members", ())):
        fields["parameters"] = with_members(fields.get("parameters"), members)
    timeout = fields.get("timeout", "")
    if timeout.isdecimal():
        fields["timeout"] = int(timeout)
    return fields


def _show(fields: Fields, view: Fields) -> None:
    """Add binds and network of a sandbox or container to a job's *fields*."""
    if "binds" in view:
        view["binds"] = [_bind(text) for text in view["binds"]]
    if "container" in fields:
        if view.get("network"):
            raise click.UsageError(
                "--network is only for --sandbox; omit it, since a container has a network"
            )
        if "network" in view:
            view["network"] = "none"
        fields["container"] = {"image": fields["container"], **view}
    elif "sandbox" in fields:
        fields["sandbox"] = {"profile": fields["sandbox"], **view}
    else:
        raise click.UsageError(
            "--bind and --[no-]network are for a --sandbox or an --image; add one of them"
        )


def _hook(target: str) -> Fields:
    """Return the hook with a URL or the name of a job."""
    return {"webhook" if "://" in target else "job": target}


def _bind(text: str) -> str:
    """Return a complete bind: without a target, the path is the same inside."""
    path, colon, mode = text.rpartition(":")
    if mode not in ("ro", "rw"):
        path, colon, mode = text, "", ""
    return (path if ":" in path else f"{path}:{path}") + colon + mode


def _json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise click.UsageError(f"--parameters {text!r} is not JSON: {error}") from error


def pair_of(text: str) -> tuple[str, str]:
    """Return key and value of ``KEY=VALUE``."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.UsageError(f"{text!r} is not KEY=VALUE, such as team=core")
    return key, value


def _create_many(
    client: "Client", definitions: Sequence[Fields], *, is_dry: bool
) -> list[CreatedItem]:
    created: list[CreatedItem] = []
    with Counter("created", len(definitions)) as counter:
        for part in _parts(definitions):
            created += client.create_many(part, dry_run=is_dry)
            counter.add(len(part))
    return created


def _parts(definitions: Sequence[Fields]) -> Iterator[list[Fields]]:
    """Yield definitions in the parts that are sent together.

    A node checks the dependencies of all jobs of a request before it creates any of them: a job
    that depends on an earlier one goes into the next part.
    """
    part: list[Fields] = []
    names: set[str] = set()
    for definition in definitions:
        if len(part) == ITEMS_MAX or names & dependencies_of(definition):
            yield part
            part, names = [], set()
        part.append(definition)
        names.add(full_name_of(definition, definition.get("name", "")))
    yield part


def dependencies_of(definition: Fields) -> set[str]:
    """Return the full names of the jobs that a definition depends on."""
    named: Any = definition.get("dependencies")  # Any: as in `Fields`
    if not isinstance(named, list):
        return set()
    return {full_name_of(definition, each) for each in cast("list[object]", named)}


def full_name_of(definition: Fields, name: object) -> str:
    """Return the full name of *name* in a definition; the default is the definition's namespace."""
    text = str(name)
    return text if "/" in text else f"{definition.get('namespace', 'default')}/{text}"


def _tell_refused(definitions: Sequence[Fields], items: Sequence[CreatedItem]) -> int:
    """Print why jobs are refused; return the exit status of the first refusal, 0 if none is."""
    from rota.client.cli.failures import report

    refused = [
        (definition, item.error)
        for definition, item in zip(definitions, items, strict=False)
        if item.error is not None
    ]
    statuses: list[int] = []
    for definition, problem in refused[:REFUSALS_MAX]:
        say(f"job {definition.get('name')!r} is refused:")
        failure = _failure(problem)
        failure.file = file_of(definition)
        statuses.append(report(failure))
    if len(refused) > REFUSALS_MAX:
        say(f"and {len(refused) - REFUSALS_MAX} more are refused")
    return statuses[0] if statuses else 0


def _failure(problem: ProblemView) -> "RequestFailed":
    """Return the error of one job of a batch as if it were sent alone."""
    from rota.client.transport.call import Response, failure_of

    errors = [
        msgspec.structs.replace(each, pointer=re.sub(r"^/items/\d+", "", each.pointer))
        for each in problem.errors
    ]
    alone = msgspec.structs.replace(problem, errors=errors)
    return failure_of(Response(problem.status, msgspec.json.encode(alone)))


def job_before(client: "Client", definition: Fields) -> JobView | None:
    """Return the job that a definition replaces; None if it does not exist.

    Raises:
        InvalidFile: The definition has no name.
    """
    from rota.client.definitions import InvalidFile
    from rota.client.errors import NotFound

    name = definition.get("name", "")
    if not name:
        raise InvalidFile("one of the jobs has no name; give it one, such as `name: report`")
    try:
        return client.job(full_name_of(definition, name))
    except NotFound:
        return None


def _difference(before: JobView | None, after: JobView) -> list[Piece]:
    name = f"{after.namespace}/{after.name}"
    there = f"{name} (version {before.version})" if before else f"{name} (not there)"
    lines = list(
        difflib.unified_diff(
            _canonical(before), _canonical(after), there, f"{name} (as given)", lineterm=""
        )
    )
    return [*map(_coloured, count(), lines)] if is_coloured() else [*lines]


def _canonical(job: JobView | None) -> list[str]:
    return [] if job is None else as_yaml(job.definition).splitlines()


def _coloured(number: int, line: str) -> Styled:
    if number < 2:
        return Styled(line, is_bold=True)
    return Styled(line, colour={"-": "red", "+": "green", "@": "cyan"}.get(line[:1]))


def say_warnings(jobs: Iterable[JobView]) -> None:
    """Print the warnings about saved jobs."""
    for job in jobs:
        for warning in job.warnings:
            say(f"warning: {job.name}: {warning}")


def say_if_dry(*, is_dry: bool) -> None:
    """Print that nothing was changed, after a dry run."""
    if is_dry:
        say("dry run: nothing is changed")
