"""``rota deploy``: the jobs of an app, those of its tasks with a schedule and of its flows."""

import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

import rota
from rota.client.app.errors import ModuleNotImported, NothingScheduled
from rota.client.cli.display.printing import say
from rota.client.cli.display.show import show_many
from rota.client.cli.display.table_columns import APPLIED, AppliedView
from rota.client.cli.inputs.options import (
    connect,
    dry_run_option,
    examples,
    format_option,
    namespace_option,
    url_option,
)
from rota.client.cli.jobs.job_files import at_place, in_namespace
from rota.client.cli.jobs.job_flags import Fields
from rota.client.cli.jobs.job_sets import apply_all, check_all, check_names
from rota.client.cli.jobs.saved_jobs import say_if_dry, say_warnings
from rota.core.errors import RotaError
from rota.core.near_names import did_you_mean

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.app.app import App
    from rota.client.client import Client

_ROTA = f"{Path(rota.__file__).parent}/"


@click.command(
    "deploy",
    epilog=examples("rota deploy shop:app", "rota deploy shop:app --dry-run"),
)
@click.argument("place", metavar="MODULE:APP")
@dry_run_option
@namespace_option
@format_option
@url_option
def deploy(place: str, *, is_dry: bool, namespace: str | None, form: str) -> None:
    """Save a job for each flow, and for each task with a schedule, of the app APP in MODULE.

    The Python module is imported, also from the current folder. The jobs are saved as by `rota jobs
    apply`: all are checked before the first is written, and identical ones change nothing. Jobs of
    tasks and flows that were removed remain.
    """
    app = _app_at(place)
    definitions = [
        at_place(place, in_namespace(namespace, body)) for place, body in app.placed_jobs()
    ]
    if not definitions:
        raise NothingScheduled(
            f"no task of the app {app.name} in {place} has a schedule, and it has no flow; give a "
            'schedule to a task, such as @app.task(schedule="@daily"), or write a flow: '
            'with app.flow("nightly"): ...'
        )
    check_names(definitions)
    with connect() as client:
        applied = check_all(client, definitions, views=True)
        notes = list(_moves(client, definitions, applied))
        if not is_dry:
            applied = [job for part in apply_all(client, definitions) for job in part]
    show_many(applied, APPLIED, form)
    say_warnings(applied)
    for note in notes:
        say(note)
    say_if_dry(is_dry=is_dry)


def _moves(
    client: "Client", definitions: Sequence[Fields], applied: Sequence[AppliedView]
) -> Iterator[str]:
    """Yield a note for each job that another module has deployed before."""
    changed = {each.job_id for each in applied if each.change == "replaced"}
    for job in applied:
        if job.job_id not in changed:
            continue
        definition = next(each for each in definitions if each["name"] == job.name)
        before = client.job(job.job_id).definition
        old, new = _modules_in(before), _modules_in(definition)
        was, now = ", ".join(sorted(old)), ", ".join(sorted(new))
        if old and new and old.isdisjoint(new):
            yield (
                f"note: {job.namespace}/{job.name} was a job of the module {was}; {now} replaces "
                "it. If that is not meant, rename the app"
            )


def _modules_in(definition: Any) -> set[str]:  # Any: JSON
    """Return the modules of the functions that a job calls."""
    tasks: list[Any] = [definition, *definition.get("tasks", ())]
    called: list[Any] = [each["python"] for each in tasks if each.get("python")]
    return {str(each["function"]).partition(":")[0] for each in called}


def _app_at(place: str) -> "App":
    """Return the app at *place*, ``module:app``.

    Raises:
        click.UsageError: There is none.
        ModuleNotImported: The module raised an exception.
    """
    from rota.client.app.app import App

    name, _, attribute = place.partition(":")
    if not (attribute.isidentifier() and all(part.isidentifier() for part in name.split("."))):
        raise click.UsageError(f"{place!r} is not like MODULE:APP, such as shop:app")
    module = _imported(name)
    try:
        found = getattr(module, attribute)
    except AttributeError:
        hint = did_you_mean(attribute, vars(module), prefix=f"{name}:")
        message = f"the module {name} has no {attribute!r}"
        raise click.UsageError(f"{message}; {hint}" if hint else message) from None
    if not isinstance(found, App):
        raise click.UsageError(f"{place} is no rota.App, but of the type {type(found).__name__}")
    return found


def _imported(name: str) -> ModuleType:
    """Import the module *name*, from the current folder first.

    Raises:
        click.UsageError: There is no such module.
        ModuleNotImported: It raised an exception, such as one of a task or a flow.
    """
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return import_module(name)
    except RotaError as error:
        raise ModuleNotImported(f"{_line_of(error)}: {error}") from error
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{name}.".startswith(f"{missing}."):
            raise click.UsageError(_absence(name, missing, folder)) from error
        raise ModuleNotImported(
            f"{_line_of(error)}: the import of {name} failed: {type(error).__name__}: {error}"
        ) from error


def _absence(name: str, missing: str, folder: str) -> str:
    """Return the error about the module *name*, which or whose package *missing* does not exist."""
    if name.endswith(".py"):
        return f"{name} is a file; name its module, {name.removesuffix('.py')}"
    return f"there is no module {missing!r} in {folder}, nor among the installed ones"


def _line_of(error: BaseException) -> str:
    """Return the file and the line at which *error* was raised, outside of rota if it is ours."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}"
    lines = list(extract_tb(error.__traceback__))
    if isinstance(error, RotaError):
        lines = [each for each in lines if not each.filename.startswith(_ROTA)] or lines
    last = lines[-1]
    return f"{last.filename}:{last.lineno}"
