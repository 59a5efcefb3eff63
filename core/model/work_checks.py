"""Checks of a task's work: the errors because of which it could not run on any machine.

Whether the machine of an attempt can run the work is checked by its executor.
"""

import posixpath
import re
from collections.abc import Iterator

from rota.core.errors import Problem, out_of_range
from rota.core.model.ids import NAME_RULE, is_name
from rota.core.model.work import Bind, Image, ResourceLimits, Sandbox, SecretNames, Work
from rota.core.model.work_kinds import kind_of
from rota.core.quoting import in_quotes
from rota.core.timing.instants import DAY, Duration, format_duration

TIMEOUT_MAX = Duration(365 * DAY)
RESERVED = "ROTA_"
"""The prefix of the variables that describe an attempt to its task; a job cannot set them."""

PROFILES = ("none", "default", "strict")
"""The profiles of sandboxes; see docs/reference/sandbox.md."""
NEVER_BOUND = ("/proc/", "/sys/")
"""Folders that are never bound, and neither is anything in them, nor the root folder."""
NEVER_COVERED = ("/proc", "/sys", "/dev", "/run/rota", "/run/rota-secrets")
"""Folders that no bind covers, nor anything in them: the kernel's, and those with files of rota."""
TARGET_LENGTH_MAX = 1_024
TARGET_DEPTH_MAX = 32
"""The longest target of a bind: Bubblewrap takes 0.7 s to make 2,000 folders in each other."""
SANDBOX_TMP = "/tmp"
"""The private folder of a sandbox, in which names that begin with `RESERVED_FILES` are rota's."""
RESERVED_FILES = ".rota-"
ENGINE_SOCKETS = frozenset({"docker.sock", "podman.sock", "containerd.sock", "crio.sock"})
"""Names of sockets of container engines."""
USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}", re.ASCII)
"""Names of users as useradd(8) accepts them."""
STRING_BYTES_MAX = 131_072
"""The largest argument or variable, ``NAME=value``, in bytes with the NUL at its end: execve(2)."""
STRINGS_BYTES_MAX = (2 << 20) - (256 << 10)
"""The largest sum of arguments and variables with their pointers: a quarter of the usual limit of
the stack, 8 MiB, less the variables of rota, among them parameters of up to 120,000 bytes."""
_POINTER_BYTES = 8
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
        *_problems_of_lengths(work, pointer),
        *_problems_of_user(work, f"{pointer}/user"),
        *_problems_of_sandbox(work.sandbox, work.executor, f"{pointer}/sandbox"),
        *_problems_of_limits(work.limits, work.executor, f"{pointer}/limits"),
        *(_problems_of_image(work.image, f"{pointer}/container") if work.image else ()),
        *(_problems_of_secrets(work, work.secrets, f"{pointer}/secrets") if work.secrets else ()),
        *(_problems_of_identity(work, f"{pointer}/identity") if work.has_identity else ()),
    ]


def _problems_of_program(work: Work, pointer: str) -> Iterator[Problem]:
    if kind_of(work.executor).is_program and bool(work.argv) == bool(work.shell):
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


def _problems_of_lengths(work: Work, pointer: str) -> Iterator[Problem]:
    """Yield an error for each text that the kernel would refuse at the start of the program."""
    arguments = [(each, "command", "an argument") for each in (*work.argv, work.shell)]
    variables = [(f"{name}={value}", "env", f"{in_quotes(name)}") for name, value in work.env]
    total = 0
    for text, field, what in (*arguments, *variables):
        size = len(text.encode("utf-8", "surrogateescape")) + 1
        total += size + _POINTER_BYTES
        if size > STRING_BYTES_MAX:
            detail = f"{what} has {size:,} bytes, with the NUL at its end"
            yield Problem(f"{pointer}/{field}", f"{detail}; {_LONG.format(STRING_BYTES_MAX)}")
    if total > STRINGS_BYTES_MAX:
        detail = f"the arguments and variables have {total:,} bytes together"
        yield Problem(pointer, f"{detail}; {_LONG.format(STRINGS_BYTES_MAX)}")


_LONG = "Linux starts programs with at most {:,}; pass the data on standard input or in a file"


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
    kind = kind_of(work.executor)
    if not (kind.has_secret_files or kind.has_secret_variables):
        detail = f"a task of the type {in_quotes(work.executor)} cannot have secrets; remove them"
        yield Problem(pointer, detail)
    elif secrets.files and not kind.has_secret_files:
        detail = "files of secrets are for the node's user; name them in env, or remove the user"
        yield Problem(f"{pointer}/files", detail)
    elif secrets.env and not kind.has_secret_variables:
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
    if bool(work.user) != kind_of(work.executor).has_user:
        detail = "only a command can run as another user of the machine; remove the user"
        yield Problem(pointer, detail)
    elif work.user and not USER.fullmatch(work.user):
        yield Problem(
            pointer,
            f"{in_quotes(work.user)} is not the name of a user: up to 32 lower-case letters, "
            "digits, '_' and '-', not a number",
        )


def _problems_of_identity(work: Work, pointer: str) -> Iterator[Problem]:
    if not kind_of(work.executor).has_secret_files:
        executor = in_quotes(work.executor)
        yield Problem(pointer, f"a task of the type {executor} cannot have an identity; remove it")


def _problems_of_secret(name: str, pointer: str) -> Iterator[Problem]:
    if not is_name(name):
        yield Problem(pointer, f"{in_quotes(name)} cannot be the name of a secret: {NAME_RULE}")


def _problems_of_sandbox(sandbox: Sandbox, executor: str, pointer: str) -> Iterator[Problem]:
    if sandbox == Sandbox():
        return
    if not kind_of(executor).has_sandbox:
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
    yield from _problems_of_binds(sandbox.binds, pointer, is_sandbox=True)


def _problems_of_limits(limits: ResourceLimits, executor: str, pointer: str) -> Iterator[Problem]:
    if limits != ResourceLimits() and not kind_of(executor).has_limits:
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
    yield from _problems_of_binds(image.binds, pointer, is_sandbox=False)


def _problems_of_binds(
    binds: tuple[Bind, ...], pointer: str, *, is_sandbox: bool
) -> Iterator[Problem]:
    for number, why in problems_of_targets(binds, is_sandbox=is_sandbox):
        yield Problem(f"{pointer}/binds/{number}", why)
    for number, bind in enumerate(binds):
        for path in (bind.source, bind.target):
            if not _is_path(path):
                yield Problem(f"{pointer}/binds/{number}", _not_absolute(path))
        if _is_path(bind.source) and (why := why_never_bound(bind.source)):
            yield Problem(f"{pointer}/binds/{number}", why)


def is_unsandboxed(work: Work) -> bool:
    """Return True if *work* runs in processes with all the rights of the node's user."""
    return kind_of(work.executor).is_of_node and work.sandbox.profile == "none"


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


def problems_of_targets(binds: tuple[Bind, ...], *, is_sandbox: bool) -> Iterator[tuple[int, str]]:
    """Yield the number of each bind with a target that is not possible, and the reason.

    A program could otherwise lead rota, which writes to the private folder and makes the mount
    points, out of the sandbox by links in the source of the bind.
    """
    targets = [normal_target(bind.target) for bind in binds]
    known = set(targets)
    for number, (bind, path) in enumerate(zip(binds, targets, strict=True)):
        above = _folders_above(path)
        covered = next((each for each in above if each in known), "")
        if ".." in bind.target.split("/"):
            why = "it contains '..'"
        elif len(path) > TARGET_LENGTH_MAX or len(above) >= TARGET_DEPTH_MAX:
            why = f"it is longer than {TARGET_LENGTH_MAX} characters or {TARGET_DEPTH_MAX} folders"
        elif any(
            each in (path, *above) or f"{each}/".startswith(f"{path.rstrip('/')}/")
            for each in NEVER_COVERED
        ):
            why = "it is a folder of the system or of rota, or contains or is in one"
        elif is_sandbox and path == SANDBOX_TMP:
            why = f"it is the private folder of the sandbox; choose a folder in {SANDBOX_TMP}"
        elif is_sandbox and path.startswith(f"{SANDBOX_TMP}/{RESERVED_FILES}"):
            why = f"names in {SANDBOX_TMP} that begin with {RESERVED_FILES} are reserved for rota"
        elif covered:
            why = f"it is in the target {in_quotes(covered)} of another bind"
        elif targets.index(path) != number:
            why = "another bind has the same target"
        else:
            continue
        yield number, f"{in_quotes(bind.target)} cannot be the target of a bind: {why}"


def normal_target(target: str) -> str:
    """Return the path of the target of a bind in its shortest form."""
    return posixpath.normpath("/" + target.lstrip("/"))


def _folders_above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts))]


def _is_path(text: str) -> bool:
    return text.startswith("/") and "\0" not in text


def _not_absolute(path: str) -> str:
    return f"{in_quotes(path)} is not an absolute path; give the whole path, beginning with /"
