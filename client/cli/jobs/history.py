"""``rota history`` and ``rota rollback``: the versions of a job, and the return to one."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from rota.client.cli.display.printing import say
from rota.client.cli.display.show import Column, Look, show_many, show_one
from rota.client.cli.display.table_columns import APPLIED, AppliedView, full_name
from rota.client.cli.human import absolute
from rota.client.cli.inputs.options import (
    connect,
    dry_run_option,
    examples,
    format_option,
    job_argument,
    namespace_option,
    url_option,
)
from rota.client.cli.jobs.saved_jobs import say_if_dry, say_warnings
from rota.wire.documents import JobView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

MADE = ("job.created", "job.replaced")
"""The changes that make versions."""
Fields = Mapping[str, Any]  # Any: JSON of the node.


class VersionView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A version of a job.

    Attributes:
        version: Its number.
        at: When it was made.
        by: The principal that made it; empty if it is unknown.
        change: ``created`` or ``replaced``.
        fields: The fields that differ from the version before, with dots between objects and
            members; null if one of both versions is no longer stored.
        is_stored: Whether its definition is stored, so that `rota rollback` can return to it.
    """

    version: int
    at: str
    by: str
    change: str
    fields: list[str] | None
    is_stored: bool


VERSION: Look[VersionView] = Look(
    name=lambda found: str(found.version),
    columns=(
        Column("VERSION", lambda found, _: str(found.version)),
        Column("TIME (UTC)", lambda found, _: absolute(found.at)),
        Column("BY", lambda found, _: found.by),
        Column("CHANGE", lambda found, _: found.change),
        Column("STORED", lambda found, _: "yes" if found.is_stored else "no"),
        Column("FIELDS", lambda found, _: ", ".join(found.fields or ())),
    ),
)


@click.command(
    "history",
    epilog=examples("rota history report", "rota history billing/report --limit 5 -o json"),
)
@job_argument
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="Maximum number."
)
@namespace_option
@format_option
@url_option
def history(job: str, *, limit: int, namespace: str | None, form: str) -> None:
    """List the versions of a job, the newest first: when, by whom, and which fields changed.

    The verb audit is needed in all namespaces, as for `rota changes`. `rota jobs show JOB --version
    N` shows a version that is stored, `rota rollback` returns to it.
    """
    with connect() as client:
        present = client.job(job, namespace=namespace)
        found = [*_versions(client, present, limit)]
    if not found and form in ("table", "wide"):
        say(f"there is no record of the versions of {full_name(present)}; it may have expired")
        return
    show_many(found, VERSION, form)


@click.command(
    "rollback",
    epilog=examples("rota rollback report 1 --dry-run", "rota rollback report 1"),
)
@job_argument
@click.argument("version", type=click.IntRange(1))
@dry_run_option
@namespace_option
@format_option
@url_option
def rollback(job: str, *, version: int, is_dry: bool, namespace: str | None, form: str) -> None:
    """Make the definition of an earlier version of a job its newest version.

    The versions between stay. Unfinished executions continue with the version that they started
    with. `rota history` lists the versions that are stored.
    """
    with connect() as client:
        present = client.job(job, namespace=namespace)
        earlier = client.job(present.job_id, version=version)
        after = client.put_job(earlier.definition or {}, if_version=present.version, dry_run=is_dry)
    change = "unchanged" if after.version == present.version else "replaced"
    show_one(AppliedView(change=change, **msgspec.structs.asdict(after)), APPLIED, form)
    say_warnings([after])
    say_if_dry(is_dry=is_dry)


def _versions(client: "Client", present: JobView, limit: int) -> Iterator[VersionView]:
    """Yield the newest versions of a job, as many as *limit*."""
    definitions: dict[int, Fields | None] = {present.version: present.definition, 0: None}

    def definition(version: int) -> Fields | None:
        if version not in definitions:
            definitions[version] = _definition_of(client, present.job_id, version)
        return definitions[version]

    for change in client.changes(of=present.job_id):
        if change.action not in MADE or change.after is None:
            continue
        if limit == 0:
            return
        limit -= 1
        before, after = definition(change.before or 0), definition(change.after)
        is_comparable = before is not None and after is not None
        yield VersionView(
            version=change.after,
            at=change.at,
            by=change.by.principal if change.by else "",
            change=change.action.removeprefix("job."),
            fields=[*changed_fields(before, after)] if is_comparable else None,
            is_stored=after is not None,
        )


def _definition_of(client: "Client", job_id: str, version: int) -> Fields | None:
    from rota.client.errors import NotFound

    try:
        return client.job(job_id, version=version).definition
    except NotFound:
        return None


def changed_fields(before: Any, after: Any, place: str = "") -> Iterator[str]:  # Any: JSON
    """Yield the paths of the values that differ in two definitions, with dots between names.

    Items of lists that have names, such as tasks, are compared by name.
    """
    one, other = _members(before), _members(after)
    if one is None or other is None:
        if before != after:
            yield place
        return
    for name in dict.fromkeys([*one, *other]):
        path = f"{place}.{name}" if place else name
        if name in one and name in other:
            yield from changed_fields(one[name], other[name], path)
        else:
            yield path


def _members(value: Any) -> Fields | None:  # Any: JSON
    """Return the members of an object, or the items of a list by their names; None for others."""
    if isinstance(value, dict):
        return cast("Fields", value)
    if isinstance(value, list) and value:
        items: list[Any] = [*value]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        names = [cast("Fields", each).get("name") for each in items if isinstance(each, dict)]
        if len({*map(str, names)}) == len(items) and all(names):
            return dict(zip(map(str, names), items, strict=True))
    return None
