"""``rota namespace``: namespaces, with owners, defaults of jobs, a pause, a quota and a policy."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from rota.client.cli.display.printing import say, say_done
from rota.client.cli.display.show import Column, Look, show_many
from rota.client.cli.documents.kinds import (
    delete_command,
    get_command,
    list_command,
    names_argument,
)
from rota.client.cli.inputs.command_groups import SuggestingGroup, output_before
from rota.client.cli.inputs.json_text import as_json_text
from rota.client.cli.inputs.options import (
    connect,
    dry_run_option,
    examples,
    format_option,
    url_option,
)
from rota.wire.documents import Json

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

KIND = "namespaces"
Definition = dict[str, Any]  # Any: JSON, which the node checks.


class QuotaPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the quota of a namespace, as in `UseView`."""

    part: str
    used: int | None
    most: int | None


@click.group(
    cls=SuggestingGroup,
    epilog=examples(
        "rota namespace list",
        "rota namespace set team-a --default retries=3",
        'rota namespace pause team-a --reason "moving house"',
        "rota namespace resume team-a",
    ),
)
@output_before
def namespace() -> None:
    """List, show, change, pause and resume namespaces.

    A namespace exists as soon as a job is in it; these commands concern documents about namespaces,
    which add owners, defaults of jobs, a pause, a quota and a policy. `rota apply` writes whole
    documents, and keeps the pause.
    """


namespace.add_command(
    list_command(
        "namespaces", "List the namespaces that have a document, and that the caller may read."
    )
)
namespace.add_command(
    get_command(
        "namespaces",
        "Show a namespace; the YAML form can be edited and passed to `rota apply -f`.",
    )
)
namespace.add_command(
    delete_command(
        "namespaces",
        """Delete the documents of namespaces: their defaults, pauses, quotas and policies.

        The jobs of the namespaces stay as they are.
        """,
        "rota namespace delete team-a --dry-run",
        short_help="Delete the documents of namespaces; their jobs stay.",
    )
)


@namespace.command(
    "quota",
    short_help="Show the quota of a namespace, and its use.",
    epilog=examples("rota namespace quota team-a", "rota namespace quota team-a -o json"),
)
@click.argument("name")
@format_option
@url_option
def show_quota(name: str, *, form: str) -> None:
    """Show how many jobs, unfinished executions and secrets a namespace has and may have.

    The use on other nodes is that of their last reports, about a second ago.
    """
    from rota.client.errors import NotFound

    with connect() as client:
        try:
            found = client.namespace_quota(name)
        except NotFound as error:
            error.add_note(
                "a namespace without a document has no quota; "
                f"`rota namespace set {name} --quota jobs=100` gives it one"
            )
            raise
    uses = {"jobs": found.jobs, "executions": found.executions, "secrets": found.secrets}
    parts = [QuotaPart(part=part, used=use.used, most=use.most) for part, use in uses.items()]
    show_many(parts, QUOTA, form)


@namespace.command(
    "set",
    short_help="Create a namespace, or change some of its fields.",
    epilog=examples(
        'rota namespace set team-a --description "nightly reports" --owner ana',
        "rota namespace set team-a --default retries=3 --default timeout=1h",
        """rota namespace set team-a --policy '{"executors": ["process"], "sandbox": """
        """"strict"}' --dry-run""",
        "rota namespace set team-a --default retries= --policy null",
        "rota namespace set team-a --quota jobs=100 --quota executions=20",
    ),
)
@click.argument("name")
@click.option("--description", help="Description for people.")
@click.option(
    "--owner",
    "owners",
    metavar="OWNER",
    multiple=True,
    help="Person or team to contact; replaces the earlier ones. Repeatable.",
)
@click.option(
    "--default",
    "defaults",
    metavar="FIELD=VALUE",
    multiple=True,
    help="Default of a field of jobs, in YAML; without VALUE it is removed. Repeatable.",
)
@click.option(
    "--policy",
    metavar="JSON",
    callback=as_json_text,
    help="The whole policy: JSON, @FILE, or - for standard input; null removes it.",
)
@click.option(
    "--quota",
    "quotas",
    metavar="PART=NUMBER",
    multiple=True,
    help="The most jobs, executions or secrets; without NUMBER there is no limit. Repeatable.",
)
@dry_run_option
@url_option
@click.pass_context
def set_namespace(
    ctx: click.Context,
    name: str,
    *,
    description: str | None,
    owners: tuple[str, ...],
    defaults: tuple[str, ...],
    policy: Json,
    quotas: tuple[str, ...],
    is_dry: bool,
) -> None:
    """Create a namespace, or change the given fields of its document.

    Changed defaults have effect on a job when the job is saved again; a changed policy also at each
    start of an attempt; a changed quota at the next job or execution.
    """
    is_given = ctx.get_parameter_source("policy") is not click.core.ParameterSource.DEFAULT
    with connect() as client:
        version, definition = _read(client, name)
        if description is not None:
            definition["description"] = description
        if owners:
            definition["owners"] = list(owners)
        if defaults:
            definition["defaults"] = _with_values(
                definition.get("defaults", {}), defaults, "--default", "retries=3"
            )
        if is_given:
            definition["policy"] = policy
        if quotas:
            quota = cast("Definition", definition.get("quota") or {})
            definition["quota"] = _with_values(quota, quotas, "--quota", "jobs=100")
        saved = client.put_document(KIND, name, definition, if_version=version, dry_run=is_dry)
    dry = "dry run: nothing is changed; would be: " if is_dry else ""
    say(f"{dry}namespace {name} has version {saved.version}")


@namespace.command(
    "pause",
    short_help="Pause namespaces: no execution begins in them.",
    epilog=examples(
        "rota namespace pause team-a",
        'rota namespace pause team-a --reason "moving house"',
    ),
)
@names_argument
@click.option("--reason", metavar="TEXT", default="", help="Reason, recorded in the ledgers.")
@dry_run_option
@url_option
def pause_namespaces(names: tuple[str, ...], *, reason: str, is_dry: bool) -> None:
    """Pause namespaces: fire times are recorded as paused, and triggers are refused.

    Unfinished executions continue.
    """
    with connect() as client:
        for name in names:
            client.pause_namespace(name, reason=reason, dry_run=is_dry)
            say_done("paused", f"namespace {name}", is_dry=is_dry)


@namespace.command(
    "resume",
    short_help="Resume paused namespaces.",
    epilog=examples("rota namespace resume team-a", "rota namespace resume team-a --dry-run"),
)
@names_argument
@dry_run_option
@url_option
def resume_namespaces(names: tuple[str, ...], *, is_dry: bool) -> None:
    """Resume paused namespaces, from the next fire times of their jobs on."""
    with connect() as client:
        for name in names:
            client.resume_namespace(name, dry_run=is_dry)
            say_done("resumed", f"namespace {name}", is_dry=is_dry)


def _read(client: "Client", name: str) -> tuple[int, Definition]:
    """Return version and definition of a namespace; 0 and an empty one if it has no document."""
    from rota.client.errors import NotFound

    try:
        found = client.document(KIND, name)
    except NotFound:
        return 0, {}
    return found.version, dict(found.definition)


def _with_values(before: Definition, given: Iterable[str], option: str, example: str) -> Definition:
    """Return the fields *before* with the values of an option; those without a value are removed.

    Raises:
        click.UsageError: One of *given* is not FIELD=VALUE.
    """
    from rota.client.definitions import parse_value

    fields = dict(before)
    for each in given:
        field, equals, text = each.partition("=")
        if not equals or not field:
            raise click.UsageError(f"{option} {each!r} is not FIELD=VALUE, such as {example}")
        if text:
            fields[field] = parse_value(text)
        else:
            fields.pop(field, None)
    return fields


QUOTA: Look[QuotaPart] = Look(
    name=lambda found: found.part,
    columns=(
        Column("QUOTA OF", lambda found, _: found.part),
        Column("USED", lambda found, _: "not counted" if found.used is None else str(found.used)),
        Column("MOST", lambda found, _: "no limit" if found.most is None else str(found.most)),
    ),
)
