"""Checks of a task's work: the errors because of which it could not run on any machine.

Whether the machine of an attempt can run the work is checked by its executor.
"""

import posixpath
import re
from collections.abc import Iterator

from rota.core.errors import Problem, out_of_range
from rota.core.model.ids import NAME_RULE, is_name
from rota.core.model.work import Bind, Image, ResourceLimits, Sandbox, SecretNames, Work
from rota.core.quoting import in_quotes
from rota.core.timing.instants import DAY, Duration, format_duration

TIMEOUT_MAX = Duration(365 * DAY)
RESERVED = "ROTA_"
"""The prefix of the variables that describe an attempt to its task; a job cannot set them."""

PROFILES = ("none", "default", "strict")
"""The profiles of sandboxes; see docs/reference/sandbox.md."""
SANDBOXED = frozenset({"process"})
"""The executors that can keep an attempt in a sandbox."""
NEVER_BOUND = ("/proc/", "/sys/")
"""Folders that are never bound, and neither is anything in them, nor the root folder."""
ENGINE_SOCKETS = frozenset({"docker.sock", "podman.sock", "containerd.sock", "crio.sock"})
"""Names of sockets of container engines."""
PROGRAMS = frozenset({"process", "user"})
"""The executors of programs of the machine."""
LIMITED = frozenset({"process", "user", "python", "container"})
"""The executors that can limit the resources of an attempt."""
WITH_SECRETS = frozenset({"process", "python", "container"})
"""The executors that pass secrets as files, and tokens, and mask them in output."""
WITH_SECRET_VARIABLES = frozenset({"process", "user", "python"})
"""The executors that pass secrets as variables; an engine writes variables of a container to its
disk."""
USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}", re.ASCII)
"""Names of users as useradd(8) accepts them."""
SECRETS_MAX = 64
"""The largest number of variables and files of one task that are secrets."""
CPU_MIN = 0.01
"""The kernel's smallest quota: 1 ms in each 100 ms."""
CPU_MAX = 1_024.0
MEMORY_MIN = 1 << 20
MEMORY_MAX = 1 << 50
PIDS_MAX = 1 << 22
"""The kernel's own limit."""


def problems_of_work(work: Work, pointer: str) -> list[Problem]:
    """Return the errors in *work*, with pointers into the API's task at *pointer*."""
    return [
        *_problems_of_program(work, pointer),
        *_problems_of_surroundings(work, pointer),
        *_problems_of_user(work, f"{pointer}/user"),
        *_problems_of_sandbox(work.sandbox, work.executor, f"{pointer}/sandbox"),
        *_problems_of_limits(work.limits, work.executor, f"{pointer}/limits"),
        *(_problems_of_image(work.image, f"{pointer}/container") if work.image else ()),
        *(_problems_of_secrets(work, work.secrets, f"{pointer}/secrets") if work.secrets else ()),
        *(_problems_of_identity(work, f"{pointer}/identity") if work.has_identity else ()),
    ]


def _problems_of_program(work: Work, pointer: str) -> Iterator[Problem]:
    if work.executor in PROGRAMS and bool(work.argv) == bool(work.shell):
        yield Problem(
            f"{pointer}/command",
            "the task needs a command (one line or a list of words), a python function, a "
            "container or a type",
        )
    if any("\0" in text for text in (*work.argv, work.shell, work.cwd)):
        detail = "the command or the working directory contains a NUL character; remove it"
        yield Problem(f"{pointer}/command", detail)
    if work.call and work.call.interpreter and not _is_path(work.call.interpreter):
        yield Problem(f"{pointer}/python/interpreter", _not_absolute(work.call.interpreter))
    for number, folder in enumerate(work.call.path if work.call else ()):
        if not _is_path(folder):
            yield Problem(f"{pointer}/python/path/{number}", _not_absolute(folder))


def _problems_of_surroundings(work: Work, pointer: str) -> Iterator[Problem]:
    if not 0 <= work.timeout <= TIMEOUT_MAX:
        detail = out_of_range(format_duration(work.timeout), "0s, which is no limit,", "365d")
        yield Problem(f"{pointer}/timeout", detail)
    if not 0 <= work.stop_grace <= TIMEOUT_MAX:
        detail = out_of_range(format_duration(work.stop_grace), "0s", "365d")
        yield Problem(f"{pointer}/stopGrace", detail)
    for name, value in work.env:
        yield from _problems_of_variable(name, value, f"{pointer}/env")
    if work.cwd and not work.cwd.startswith("/"):
        yield Problem(f"{pointer}/cwd", _not_absolute(work.cwd))


def _problems_of_variable(name: str, value: str, pointer: str) -> Iterator[Problem]:
    if not name or "=" in name or "\0" in name + value:
        detail = (
            f"{in_quotes(name)} cannot be an environment variable: a name must not be empty "
            "or contain '=', and neither a name nor a value may contain NUL"
        )
        yield Problem(pointer, detail)
    elif name.startswith(RESERVED):
        detail = (
            f"{in_quotes(name)} cannot be set: names that begin with {RESERVED} are reserved "
            "for rota; choose another name"
        )
        yield Problem(pointer, detail)


def _problems_of_secrets(work: Work, secrets: SecretNames, pointer: str) -> Iterator[Problem]:
    executor = work.executor
    if executor not in WITH_SECRETS | WITH_SECRET_VARIABLES:
        detail = f"a task of the type {in_quotes(executor)} cannot have secrets; remove them"
        yield Problem(pointer, detail)
    elif secrets.files and executor not in WITH_SECRETS:
        detail = "files of secrets are for the node's user; name them in env, or remove the user"
        yield Problem(f"{pointer}/files", detail)
    elif secrets.env and executor not in WITH_SECRET_VARIABLES:
        detail = (
            "a container engine writes variables to its disk, so secrets of a container can only "
            "be files: name them in secrets.files, and read them in the folder ROTA_SECRETS"
        )
        yield Problem(f"{pointer}/env", detail)
    count = len(secrets.env) + len(secrets.files)
    if count > SECRETS_MAX:
        detail = f"{count} variables and files are too many; a task has at most {SECRETS_MAX}"
        yield Problem(pointer, detail)
    plain = {name for name, _ in work.env}
    for name, secret in secrets.env:
        yield from _problems_of_variable(name, "", f"{pointer}/env")
        if name in plain:
            detail = f"{in_quotes(name)} is in env, too; remove it there or here"
            yield Problem(f"{pointer}/env", detail)
        yield from _problems_of_secret(secret, f"{pointer}/env")
    for name, secret in secrets.files:
        if not is_name(name):
            detail = f"{in_quotes(name)} cannot be the name of the file: {NAME_RULE}"
            yield Problem(f"{pointer}/files", detail)
        yield from _problems_of_secret(secret, f"{pointer}/files")


def _problems_of_user(work: Work, pointer: str) -> Iterator[Problem]:
    if bool(work.user) != (work.executor == "user"):
        detail = "only a command can run as another user of the machine; remove the user"
        yield Problem(pointer, detail)
    elif work.user and not USER.fullmatch(work.user):
        yield Problem(
            pointer,
            f"{in_quotes(work.user)} is not the name of a user: up to 32 lower-case letters, "
            "digits, '_' and '-', not a number",
        )


def _problems_of_identity(work: Work, pointer: str) -> Iterator[Problem]:
    if work.executor not in WITH_SECRETS:
        executor = in_quotes(work.executor)
        yield Problem(pointer, f"a task of the type {executor} cannot have an identity; remove it")


def _problems_of_secret(name: str, pointer: str) -> Iterator[Problem]:
    if not is_name(name):
        yield Problem(pointer, f"{in_quotes(name)} cannot be the name of a secret: {NAME_RULE}")


def _problems_of_sandbox(sandbox: Sandbox, executor: str, pointer: str) -> Iterator[Problem]:
    if sandbox == Sandbox():
        return
    if executor not in SANDBOXED:
        detail = (
            f"a task of the type {in_quotes(executor)} cannot have a sandbox; remove the sandbox, "
            "or use a command"
        )
        yield Problem(pointer, detail)
    elif sandbox.profile == "none":
        detail = (
            "network and binds have no effect with the profile 'none'; choose 'default' or "
            "'strict', or remove them"
        )
        yield Problem(pointer, detail)
    yield from _problems_of_binds(sandbox.binds, pointer)


def _problems_of_limits(limits: ResourceLimits, executor: str, pointer: str) -> Iterator[Problem]:
    if limits != ResourceLimits() and executor not in LIMITED:
        detail = f"a task of the type {in_quotes(executor)} cannot have limits; remove them"
        yield Problem(pointer, detail)
    if limits.cpu and not CPU_MIN <= limits.cpu <= CPU_MAX:
        yield Problem(f"{pointer}/cpu", out_of_range(limits.cpu, CPU_MIN, f"{CPU_MAX:g}"))
    if limits.memory and not MEMORY_MIN <= limits.memory <= MEMORY_MAX:
        detail = out_of_range(f"{limits.memory} bytes", "1MiB", "1024TiB")
        yield Problem(f"{pointer}/memory", detail)
    if limits.pids and not 1 <= limits.pids <= PIDS_MAX:
        detail = out_of_range(limits.pids, 1, PIDS_MAX)
        yield Problem(f"{pointer}/pids", detail)


def _problems_of_image(image: Image, pointer: str) -> Iterator[Problem]:
    if ":" in image.network:
        detail = f"{in_quotes(image.network)} would share the network of a container or process"
        yield Problem(f"{pointer}/network", f"{detail}; name one of the engine's networks")
    for field, text in (("network", image.network), ("user", image.user)):
        if any(each.isspace() or not each.isprintable() for each in text):
            detail = f"{in_quotes(text)} must not contain spaces or unprintable characters"
            yield Problem(f"{pointer}/{field}", detail)
    yield from _problems_of_binds(image.binds, pointer)


def _problems_of_binds(binds: tuple[Bind, ...], pointer: str) -> Iterator[Problem]:
    for number, bind in enumerate(binds):
        for path in (bind.source, bind.target):
            if not _is_path(path):
                yield Problem(f"{pointer}/binds/{number}", _not_absolute(path))
        if _is_path(bind.source) and (why := why_never_bound(bind.source)):
            yield Problem(f"{pointer}/binds/{number}", why)


def is_unsandboxed(work: Work) -> bool:
    """Return True if *work* runs in processes with all the rights of the node's user."""
    return work.executor in ("process", "python") and work.sandbox.profile == "none"


def why_never_bound(source: str) -> str:
    """Return the reason why *source*, an absolute path, is never bound; empty if it may be bound.

    Links are not followed: before the launch of an attempt, the path that they lead to is checked.
    """
    path = "/" + posixpath.normpath(source).lstrip("/")
    if posixpath.basename(path) in ENGINE_SOCKETS:
        why = "access to a container engine gives root rights on its machine"
        return f"{in_quotes(source)} is never bound: {why}"
    if path == "/" or f"{path}/".startswith(NEVER_BOUND):
        why = "it exposes the whole machine; bind only the files and folders that are needed"
        return f"{in_quotes(source)} is never bound: {why}"
    return ""


def _is_path(text: str) -> bool:
    return text.startswith("/") and "\0" not in text


def _not_absolute(path: str) -> str:
    return f"{in_quotes(path)} is not an absolute path; give the whole path, beginning with /"
