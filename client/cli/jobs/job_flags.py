"""Jobs in flags: the options of a job, and the definition that they are."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click
import msgspec

from rota.client.cli.inputs.json_text import json_of
from rota.client.cli.inputs.parameters import members_of, with_members
from rota.wire.documents import HOOK_FIELDS
from rota.wire.job_fields import JOB_FIELDS, Flag, Form, JobField

Fields = dict[str, Any]
"""A job's document: Any, because the node validates it."""
F = TypeVar("F", bound=Callable[..., Any])  # Any: options apply to any command
Option = Callable[[Any], Any]  # Any: as with F
_NUMBERS = {"retries": click.INT, "priority": click.IntRange(-100, 100)}
"""The fields whose flags take numbers."""


def work_options(command: F) -> F:
    """Add the options of what a job runs, and how."""
    extra = (
        click.option(
            "--path",
            "path",
            metavar="DIR",
            multiple=True,
            help="Folder that is searched first for the modules of --python. Repeatable.",
        ),
        click.option(
            "--bind",
            "binds",
            metavar="SRC[:DST][:rw]",
            multiple=True,
            help="File or folder visible in its sandbox or container; writable with :rw. "
            "Repeatable.",
        ),
        click.option(
            "--network/--no-network",
            default=None,
            help="Network access of its sandbox; --no-network also applies to a container.",
        ),
        click.option("--cpu", type=float, help="Limit of processors, such as 0.5."),
        click.option("--memory", metavar="SIZE", help="Limit of memory, such as 512MiB."),
        click.option("--pids", type=int, help="Limit of processes and threads."),
        click.option(
            "-p",
            "--parameter",
            "members",
            metavar="K=V",
            multiple=True,
            help="A member of its parameters; V is JSON, or otherwise text. Repeatable.",
        ),
    )
    return _with(_options(is_of_work=True) + extra, command)


def schedule_options(command: F) -> F:
    """Add the other options of a job: when it runs, and what follows."""
    return _with(_options(is_of_work=False), command)


def _with(options: Iterable[Option], command: F) -> F:
    for option in reversed([*options]):
        command = option(command)
    return command


def _options(*, is_of_work: bool) -> tuple[Option, ...]:
    """Return the options of the fields of a job that have flags."""
    return tuple(
        _option(field, field.flag)
        for field in JOB_FIELDS
        if field.flag is not None and field.flag.is_of_work == is_of_work
    )


def _option(field: JobField, flag: Flag) -> Option:
    names = flag.names or (f"--{field.name.replace('_', '-')}",)
    choices = flag.choices or field.choices
    kind = _NUMBERS.get(field.name) or (click.Choice(choices) if choices else None)
    default = field.stored_default.value if field.form is Form.CHOICE else field.default
    shown = f"  [default: {default}]" if default and isinstance(default, str) else ""
    return click.option(
        *names,
        field.key,
        type=kind,
        metavar=None if kind else flag.metavar,
        multiple=flag.is_repeatable,
        help=flag.help + shown,
    )


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
    if path := fields.pop("path", ()):
        if "python" not in fields:
            raise click.UsageError("--path is for --python; add it, or use --cwd for a command")
        fields["python"] = {"function": fields["python"], "path": [*path]}
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
        return json_of(text)
    except msgspec.DecodeError as error:
        raise click.UsageError(f"--parameters {text!r} is not JSON: {error}") from error


def pair_of(text: str) -> tuple[str, str]:
    """Return key and value of ``KEY=VALUE``."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.UsageError(f"{text!r} is not KEY=VALUE, such as team=core")
    return key, value
