"""The start of one process: its environment, its folder, its streams.

`start` blocks and runs in the spawner thread. It uses `subprocess.Popen`, which closes every
descriptor but 0 to 2 in the child, sets the working directory, and reports errors between fork and
exec. Without ``preexec_fn`` and ``user``, `subprocess.Popen` uses vfork, whose time does not grow
with the node's memory. Measured with 1 GB resident: 2,400 starts/s, as with `os.posix_spawn`; 1,500
starts/s with `os.posix_spawn` of ``env -C``; 7 starts/s with a real fork.
"""

import errno
import os
import signal
import subprocess
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from rota.core.model.attempt import Order, Outcome
from rota.core.model.ids import NodeId
from rota.core.model.work import Work
from rota.core.timing.instants import format_instant
from rota.executor.attempt_settings import AttemptSettings
from rota.executor.kernel.env_marker import STORE_VARIABLE, mark_of
from rota.executor.kernel.limits import UNLIMITED, Limited
from rota.executor.kernel.process_trees import Namespace
from rota.executor.launch.private_folders import Folders, remove
from rota.executor.launch.secret_files import VARIABLE, SecretFiles
from rota.executor.launch.task_channel import TaskChannel, files_of
from rota.executor.launch.task_users import TaskUser, TaskUsers, UserRefused
from rota.executor.secret_values import AUTHORITY_FILE, TOKEN_FILE, SecretUnavailable, SecretValues

_FROM_NODE = ("PATH", "HOME", "LANG", "TMPDIR")
TOKEN_VARIABLE = "ROTA_TOKEN_FILE"
"""The variable with the path of the attempt's own token; clients read it."""
AUTHORITY_VARIABLE = "ROTA_CA"
_DEFAULTS = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


class LaunchEnvironment(NamedTuple):
    """The settings that all attempts of a node share.

    Attributes:
        environment: The variables of every attempt (`base_environment`).
        folders: The private folders of attempts.
        settings: The node's settings for attempts.
        secret_files: The files of secrets.
        users: The users as which programs may run, besides that of the node.
    """

    environment: dict[str, str]
    folders: Folders
    settings: AttemptSettings
    secret_files: SecretFiles
    users: TaskUsers


class LaunchPlan(NamedTuple):
    """The parameters of a program's start.

    Attributes:
        argv: The program and its arguments.
        environment: The complete environment.
        cwd: The working directory; it exists.
        stdin: The text on standard input.
        umask: The umask of the program; that of this process denies other users all access.
        inherited: Descriptors that stay open, besides 0 to 2.
        user: The user of the program; None for that of this process.
        enter: Called in the child between fork and exec; None for nothing.
    """

    argv: tuple[str, ...]
    environment: dict[str, str]
    cwd: str
    stdin: str
    umask: int
    inherited: tuple[int, ...] = ()
    user: TaskUser | None = None
    enter: Callable[[], None] | None = None


class Launched(NamedTuple):
    """A process that runs; both descriptors belong to the caller.

    Attributes:
        pid: Also the number of its process group and session.
        pidfd: Readable when the process has ended.
        pipe: The pipe with its output, not blocking.
    """

    pid: int
    pidfd: int
    pipe: int


class StartedProcess(NamedTuple):
    """An attempt that has begun; the descriptors in it belong to the caller.

    Attributes:
        leader: The process that was started; it leads the process group.
        channel: The files of its reports.
        namespace: The namespace of its sandbox, or None. In a sandbox, the leader is bubblewrap.
        limited: The limits that are in force.
    """

    leader: Launched
    channel: TaskChannel
    namespace: Namespace | None = None
    limited: Limited = UNLIMITED


class NotStartedError(Exception):
    """A process could not be started; the message is for the owner of the job.

    Attributes:
        outcome: The outcome of the attempt: failed, or lost by a fault of this node.
    """

    def __init__(self, reason: str, outcome: Outcome = Outcome.FAILED) -> None:
        super().__init__(reason)
        self.outcome = outcome


def base_environment(
    environ: Mapping[str, str], settings: AttemptSettings, *, node_id: NodeId, store_id: str
) -> dict[str, str]:
    """Return the variables that every attempt of a node gets.

    Args:
        environ: The environment of the node.
        settings: The node's settings for attempts.
        node_id: The id of the node.
        store_id: The id of the node's data directory.
    """
    inherited = {name: environ[name] for name in _FROM_NODE if name in environ}
    ours = {"ROTA_NODE_ID": node_id, STORE_VARIABLE: store_id}
    api = {"ROTA_URL": settings.url, "ROTA_CA": settings.ca}
    return _DEFAULTS | inherited | ours | {name: value for name, value in api.items() if value}


def environment_of(order: Order, base: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the environment of one attempt, which finds its private folder at *folder*.

    A task may replace variables that come from the node, but not those that rota sets: fencing and
    `rota.executor.kernel.orphans` identify the attempt by them.
    """
    ours = {name: value for name, value in base.items() if name.startswith("ROTA_")}
    return {
        **base,
        **dict(order.work.env),
        **ours,
        **variables_of(order),
        **{name: f"{folder}/{file}" for name, file in files_of(order).items()},
    }


def variables_of_secrets(secrets: SecretValues, folder: str) -> dict[str, str]:
    """Return the variables of *secrets*, whose files are in *folder*; empty for no files."""
    variables = {name: os.fsdecode(value) for name, value in secrets.env.items()}
    return {**variables, **(variables_of_files(secrets, folder) if folder else {})}


def variables_of_files(secrets: SecretValues, folder: str) -> dict[str, str]:
    """Return the variables with the paths of the files of *secrets* in *folder*."""
    return {
        **({VARIABLE: folder} if secrets.files else {}),
        **({TOKEN_VARIABLE: f"{folder}/{TOKEN_FILE}"} if secrets.token else {}),
        **({AUTHORITY_VARIABLE: f"{folder}/{AUTHORITY_FILE}"} if secrets.authority else {}),
    }


def variables_of(order: Order) -> dict[str, str]:
    """Return the variables that describe the attempt of *order*."""
    namespace, _, job = order.job.partition("/")
    return {
        **mark_of(order.key),
        "ROTA_TOKEN": str(order.token),
        "ROTA_IDEMPOTENCY_KEY": order.key.execution_id,
        "ROTA_FIRE_TIME": format_instant(order.fire_at),
        **_interval_of(order),
        **({"ROTA_JOB": job, "ROTA_NAMESPACE": namespace} if job else {}),
    }


def _interval_of(order: Order) -> dict[str, str]:
    """Return the variables with the interval of the execution; none if it has no interval."""
    if not order.interval_start:
        return {}
    return {
        "ROTA_INTERVAL_START": format_instant(order.interval_start),
        "ROTA_INTERVAL_END": format_instant(order.fire_at),
    }


def start(order: Order, around: LaunchEnvironment, secrets: SecretValues) -> StartedProcess:
    """Start the process of *order*, without sandbox and limits, in a session and group of its own.

    Raises:
        NotStartedError: The process cannot be started; its folder is removed.
    """
    argv, user = argv_of(order.work), user_of(order.work, around)
    with (
        starting(order, argv, around, user) as channel,
        secret_folder(order, around, secrets) as place,
    ):
        if user is None:
            # For another user, root would see what the user cannot.
            _touch(argv[0], order.work.cwd)
        folder = str(channel.folder)
        environment = environment_of(order, base_of(around, user), folder)
        environment |= variables_of_secrets(secrets, place)
        cwd = order.work.cwd or folder
        umask, stdin = around.settings.umask, order.work.stdin
        plan = LaunchPlan(argv, environment, cwd, stdin, umask, user=user)
        return StartedProcess(launch(plan), channel)


def user_of(work: Work, around: LaunchEnvironment) -> TaskUser | None:
    """Return the user of *work*; None for that of this process.

    Raises:
        NotStartedError: The program cannot run as its user here.
    """
    try:
        return around.users.of(work)
    except UserRefused as error:
        raise NotStartedError(str(error)) from error


def base_of(around: LaunchEnvironment, user: TaskUser | None) -> dict[str, str]:
    """Return the variables of every attempt of *user*."""
    if user is None:
        return around.environment
    base = {name: each for name, each in around.environment.items() if name != "TMPDIR"}
    return {**base, **user.variables}


@contextmanager
def starting(
    order: Order, argv: tuple[str, ...], around: LaunchEnvironment, user: TaskUser | None = None
) -> Generator[TaskChannel]:
    """Give *order* a private folder; if the body fails, remove the folder and explain the error.

    Raises:
        NotStartedError: The body failed with an error of the operating system or of the order.
    """
    with explained(order, argv, around):
        folder = around.folders.take() if user is None else _folder_of_user(around)
        try:
            channel = TaskChannel(folder, owner=None if user is None else user.uid)
            channel.begin(order)
            if user is not None:
                around.users.hand_over(folder, user)
            yield channel
        except BaseException:
            remove(folder)
            raise


def _folder_of_user(around: LaunchEnvironment) -> Path:
    try:
        return around.users.take()
    except OSError as error:
        reason = f"cannot make its private folder: {error.strerror}"
        raise NotStartedError(reason, Outcome.LOST) from error


@contextmanager
def secret_folder(order: Order, around: LaunchEnvironment, secrets: SecretValues) -> Generator[str]:
    """Give *order* the files of its secrets; if the body fails, remove them.

    The body gets the path of their folder, which is empty if there are no files.

    Raises:
        NotStartedError: The files cannot be made.
    """
    if not secrets.in_files:
        yield ""
        return
    try:
        folder = around.secret_files.make(order.key, secrets.in_files)
    except SecretUnavailable as error:
        raise NotStartedError(str(error), Outcome.LOST) from error
    try:
        yield str(folder)
    except BaseException:
        around.secret_files.remove(order.key)
        raise


@contextmanager
def explained(order: Order, argv: tuple[str, ...], around: LaunchEnvironment) -> Generator[None]:
    """Explain errors of the body to the owner of the job.

    Raises:
        NotStartedError: The body failed with an error of the operating system or of the order.
    """
    try:
        yield
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        reason = _explain(error, argv, order.work.cwd, node=around.environment["ROTA_NODE_ID"])
        raise NotStartedError(reason) from error


def argv_of(work: Work) -> tuple[str, ...]:
    """Return the program and the arguments of *work*.

    Raises:
        NotStartedError: The work has no command or two, or its working directory is relative.
    """
    if bool(work.argv) == bool(work.shell):
        raise NotStartedError("a process task needs exactly one of argv and shell")
    if work.cwd and not os.path.isabs(work.cwd):
        raise NotStartedError(f"the working directory {work.cwd!r} is not an absolute path")
    return work.argv or ("/bin/sh", "-c", work.shell)


def _touch(program: str, cwd: str) -> None:
    """Access the files that the child is going to use.

    Between vfork and exec, this thread is suspended while it holds the interpreter's lock, so a
    folder on an unresponsive network disk would block the whole node. Here, it blocks only this
    thread.
    """
    if cwd:
        os.stat(cwd)
    if os.path.isabs(program):
        os.stat(program)


def launch(plan: LaunchPlan) -> Launched:
    """Start the program of *plan*, in a session and process group of its own.

    The program of another user is found, and its working directory entered, with the rights of that
    user. For it, and for limits, the warden is forked, which has little memory.

    Raises:
        OSError, ValueError, subprocess.SubprocessError: The program cannot be started.
    """
    ours, theirs = os.pipe()
    user = plan.user
    try:
        os.set_blocking(ours, False)
        stdin = _stdin(plan.stdin)
        try:
            if user is not None:
                _give(user, theirs, stdin)
            process = subprocess.Popen(
                plan.argv if user is None else user.entering(plan.cwd, plan.argv),
                stdin=stdin,
                stdout=theirs,
                stderr=theirs,
                user=None if user is None else user.uid,
                group=None if user is None else user.gid,
                extra_groups=None if user is None else user.groups,
                cwd=plan.cwd if user is None else "/",
                env=plan.environment,
                pass_fds=plan.inherited,
                umask=plan.umask,
                start_new_session=True,
                # Forks, as the user does. What runs in the child then is `Enclosure.enter` alone,
                # which takes no lock that another thread could have held.
                preexec_fn=plan.enter,
            )
        finally:
            if stdin != subprocess.DEVNULL:
                os.close(stdin)
        return Launched(process.pid, _watch(process), ours)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)


def _give(user: TaskUser, *descriptors: int) -> None:
    """Give pipes and files in memory to *user*, who can then open ``/dev/stdout``."""
    for descriptor in descriptors:
        if descriptor != subprocess.DEVNULL:
            os.fchown(descriptor, user.uid, user.gid)


def abandon(launched: Launched) -> None:
    """Kill a launched process that cannot be reported, wait for it and close its descriptors."""
    with suppress(ProcessLookupError):
        os.killpg(launched.pid, signal.SIGKILL)
    os.waitid(os.P_PIDFD, launched.pidfd, os.WEXITED)
    os.close(launched.pidfd)
    os.close(launched.pipe)


def _watch(process: subprocess.Popen[bytes]) -> int:
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError:  # Out of descriptors: an unwatched process must not run.
        process.kill()
        process.wait()
        raise
    # The caller waits for the pidfd instead. Without an exit code, the Popen object would warn when
    # it is collected, and poll the pid later, when the number may belong to another process.
    process.returncode = 0
    return pidfd


def _stdin(text: str) -> int:
    """Return a descriptor of a file in memory with *text*, so that no pipe has to be written.

    So a task that reads its input late, or never, blocks nothing.
    """
    if not text:
        return subprocess.DEVNULL
    stdin = os.memfd_create("rota-stdin", os.MFD_CLOEXEC)
    try:
        with os.fdopen(stdin, "wb", closefd=False) as file:
            file.write(text.encode("utf-8", "surrogateescape"))
        os.lseek(stdin, 0, os.SEEK_SET)
    except BaseException:
        os.close(stdin)
        raise
    return stdin


def _explain(error: Exception, argv: tuple[str, ...], cwd: str, *, node: str) -> str:
    program = argv[0]
    match error:
        case OSError(errno=errno.E2BIG):
            return f"cannot start {program!r}: its arguments and environment are too long"
        case OSError() if cwd and error.filename == cwd:
            return folder_reason(error, cwd, node=node)
        case FileNotFoundError() if "/" not in program:
            return f"there is no program {program!r} in PATH on node {node}"
        case FileNotFoundError() if (cwd or os.path.isabs(program)) and os.path.exists(
            os.path.join(cwd, program)
        ):
            return f"cannot start {program!r}: the interpreter in its first line is missing"
        case FileNotFoundError() if os.path.isabs(program):
            return f"there is no program {program!r} on node {node}"
        case FileNotFoundError():
            place = repr(cwd) if cwd else "its empty folder, as the task has no cwd,"
            remedy = "" if cwd else "; set cwd, or give the absolute path of the program"
            return f"there is no program {program!r} in {place} on node {node}{remedy}"
        case OSError():
            return f"cannot start {program!r} on node {node}: {error.strerror}"
        case _:
            return f"cannot start {program!r}: {error}"


def folder_reason(error: OSError, cwd: str, *, node: str) -> str:
    """Return the reason, in words, why nothing can be started in *cwd* on *node*."""
    match error:
        case FileNotFoundError():
            return f"there is no folder {cwd!r} (cwd) on node {node}"
        case NotADirectoryError():
            return f"{cwd!r} (cwd) is not a folder on node {node}"
        case _:
            return f"cannot enter the folder {cwd!r} (cwd) on node {node}: {error.strerror}"
