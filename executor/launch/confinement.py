"""The start of one process in a sandbox, under limits, or both."""

import os
import select
import signal
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from rota.core.model.attempt import Order
from rota.core.model.permitted_binds import is_exchangeable
from rota.core.model.work import Bind, ResourceLimits, Work
from rota.core.model.work_checks import normal_target, problems_of_targets
from rota.executor.kernel.env_marker import is_mark
from rota.executor.kernel.limits import UNLIMITED, Limited, Limiter
from rota.executor.kernel.mount_table import Mount, mounted_at, mounts_of
from rota.executor.kernel.pidfd_signals import hold
from rota.executor.kernel.process_trees import Namespace
from rota.executor.kernel.procfs import status_of
from rota.executor.launch.binds import BindRefusedError, ProtectedPaths, check_exchange, opened
from rota.executor.launch.egress import RESOLVER, Egresses, NoEgressError
from rota.executor.launch.sandbox import (
    ARRANGED,
    PRIVATE,
    Bubblewrap,
    Egress,
    Mounted,
    NoSandboxError,
    Proven,
    environment_in,
    has_egress,
    setting,
    shows_machine,
    wrapping,
)
from rota.executor.launch.secret_files import INSIDE
from rota.executor.launch.spawn import (
    Launched,
    LaunchEnvironment,
    LaunchPlan,
    NotStartedError,
    StartedProcess,
    abandon,
    argv_of,
    base_of,
    environment_of,
    explained,
    launch,
    secret_folder,
    starting,
    user_of,
    variables_of_secrets,
)
from rota.executor.launch.task_channel import TaskChannel
from rota.executor.launch.task_users import TaskUser
from rota.executor.secret_values import SecretValues

_INFO_S = 20.0  # Bubblewrap reports within milliseconds; the machine may be busy.
_LOOK_S, _LOOKS_MAX = 0.0005, 40_000  # Bubblewrap takes 5 to 15 ms to arrange a sandbox.
_ANY = "surrogateescape"  # The environment may have any bytes.
_BUBBLEWRAP_PIDS = 2  # One process waits outside, and one is the first process inside.


class _Info(msgspec.Struct, rename="kebab"):
    child_pid: int


class Confiner:
    """Starts attempts with a sandbox or limits, in one thread, which must outlive the attempts.

    This thread is the parent in the sense of ``--die-with-parent``.
    """

    def __init__(
        self,
        around: LaunchEnvironment,
        limiter: Limiter,
        bubblewrap: Bubblewrap,
        kept: ProtectedPaths,
    ) -> None:
        self._environment = around
        self._kept = kept
        self._limiter = limiter
        self._bubblewrap = bubblewrap
        self._egress = Egresses(around.environment["PATH"])

    def start(self, order: Order, secrets: SecretValues) -> StartedProcess:
        """Start the process of *order* as `rota.executor.launch.spawn.start` does, but confined.

        Raises:
            NotStartedError: The process cannot be started, or not in its sandbox; nothing is left
                of it.
        """
        argv, around = argv_of(order.work), self._environment
        with secret_folder(order, around, secrets) as place:
            if order.work.sandbox.profile == "none":
                user = user_of(order.work, around)
                with starting(order, argv, around, user) as channel:
                    variables = variables_of_secrets(secrets, place)
                    return self._start_limited(order, argv, channel, variables, user)
            if order.work.user:
                raise NotStartedError("a program in a sandbox cannot run as another user")
            with explained(order, argv, around):
                variables = variables_of_secrets(secrets, place and INSIDE)
                return self._start_sandboxed(order, argv, variables, place)

    def close(self) -> None:
        """Remove what was made for all attempts, which must have ended."""
        self._limiter.close()
        self._egress.close()

    def _start_limited(
        self,
        order: Order,
        argv: tuple[str, ...],
        channel: TaskChannel,
        variables: Mapping[str, str],
        user: TaskUser | None,
    ) -> StartedProcess:
        work, folder = order.work, str(channel.folder)
        environment = environment_of(order, base_of(self._environment, user), folder)
        environment |= variables
        cwd = work.cwd or folder
        umask = self._environment.settings.umask
        plan = LaunchPlan(argv, environment, cwd, work.stdin, umask, user=user)
        leader, limited = self._launch(plan, order, work.limits)
        return StartedProcess(leader, channel, limited=limited)

    def _start_sandboxed(
        self, order: Order, argv: tuple[str, ...], variables: Mapping[str, str], place: str
    ) -> StartedProcess:
        sandbox, settings = order.work.sandbox, self._environment.settings
        environment = environment_of(
            order, environment_in(sandbox, self._environment.environment), PRIVATE
        )
        environment |= variables
        with ExitStack() as ours, ExitStack() as theirs:
            try:
                bubblewrap = self._bubblewrap.proven_for(sandbox)
                mounted, expected = self._mounted(order, bubblewrap, theirs)
                if has_egress(sandbox):
                    self._egress.prove()
            except (NoSandboxError, NoEgressError, BindRefusedError) as error:
                raise NotStartedError(str(error)) from error
            # Last, so that no bind of the task hides it.
            mounted += [Mounted(place, INSIDE)] if place else []
            info, says = _pipe(ours, theirs)
            waits, gate = _pipe(theirs, ours)
            alive, egress = -1, None
            if has_egress(sandbox):
                alive, lives = _pipe(ours, theirs)
                egress = Egress(alive=lives, resolver=_file(RESOLVER, theirs))
            options = (
                *wrapping(
                    order.work,
                    options=bubblewrap.options,
                    rooms=self._bubblewrap.rooms,
                    tmp_bytes=settings.sandbox_tmp_bytes,
                    mounted=mounted,
                    egress=egress,
                ),
                *setting(environment),
                *("--info-fd", str(says), "--block-fd", str(waits)),
            )
            listed = _file("".join(f"{word}\0" for word in options).encode("utf-8", _ANY), theirs)
            plan = LaunchPlan(
                argv=(bubblewrap.path, "--args", str(listed), "--", *argv),
                environment={name: each for name, each in environment.items() if is_mark(name)},
                cwd="/",
                stdin=order.work.stdin,
                umask=settings.umask,
                inherited=(
                    *(says, waits, listed, *(egress or ())),
                    *(each.source for each in mounted if isinstance(each.source, int)),
                ),
            )
            leader, limited = self._launch(plan, order, _with_room(order.work.limits))
            theirs.close()
            limited = limited._replace(unenforced=bubblewrap.unenforced + limited.unenforced)
            try:
                namespace = _namespace_of(leader.pid, info)
                channel = self._arrange(order, namespace, alive, expected)
            except BaseException:
                abandon(leader)
                raise
            with suppress(BrokenPipeError):  # Bubblewrap has ended; its end is handled as usual.
                os.write(gate, b"\n")
            return StartedProcess(leader, channel, namespace, limited)

    def _mounted(
        self, order: Order, bubblewrap: Proven, stack: ExitStack
    ) -> tuple[list[Mounted], set[Mount]]:
        """Return the binds of *order*, checked, and the mounts that the sandbox then has.

        *stack* closes their descriptors.

        Raises:
            BindRefusedError: A bind is not allowed.
        """
        binds, permitted = order.work.sandbox.binds, order.permitted_binds
        for _, why in problems_of_targets(binds, is_sandbox=True):
            raise BindRefusedError(why)
        mounted: list[Mounted] = []
        expected: set[Mount] = set()
        for bind, source in zip(binds, opened(binds, self._kept, permitted, stack), strict=True):
            self._check_target(bind, order)
            if not bubblewrap.takes_descriptors and permitted is not None:
                check_exchange(bind, source.source, permitted)
            place = source.descriptor if bubblewrap.takes_descriptors else source.source
            mounted.append(Mounted(place, bind.target, bind.is_writable))
            expected |= source.mounts
        return mounted, expected

    def _check_target(self, bind: Bind, order: Order) -> None:
        """Check a target that shows a folder of the machine: bubblewrap makes what is missing.

        Raises:
            BindRefusedError: It does not exist, or a link could lead out of the sandbox.
        """
        target, sandbox = normal_target(bind.target), order.work.sandbox
        if not shows_machine(target, sandbox, self._bubblewrap.rooms):
            return
        could_be_exchanged = is_exchangeable(target, order.permitted_binds or ())
        if os.path.realpath(target) != target or not os.path.lexists(target) or could_be_exchanged:
            raise BindRefusedError(
                f"{bind.target!r} cannot be the target of a bind in the sandbox "
                f"{sandbox.profile!r}: it does not exist on this node, a link leads to it, or "
                "tasks could make one; choose a folder in /tmp"
            )

    def _arrange(
        self, order: Order, namespace: Namespace | None, alive: int, expected: set[Mount]
    ) -> TaskChannel:
        """Set up the program's files and network before its start; return the files of reports.

        Raises:
            NotStartedError: The binds are not those that were checked.
        """
        private = _private_of(namespace)
        if private is None or namespace is None:
            return TaskChannel(
                Path(os.devnull)
            )  # Bubblewrap has ended: it cannot make this sandbox.
        channel = TaskChannel.in_memory(private)
        try:
            _check_mounts(namespace.first, expected, order)
            channel.begin(order)
            if has_egress(order.work.sandbox):
                self._egress.connect(namespace.first, alive)
        except BaseException as error:
            channel.close()
            namespace.close()
            if isinstance(error, NoEgressError):
                raise NotStartedError(str(error)) from error
            raise
        return channel

    def _launch(
        self, plan: LaunchPlan, order: Order, limits: ResourceLimits
    ) -> tuple[Launched, Limited]:
        if limits == ResourceLimits():
            return launch(plan), UNLIMITED
        with self._limiter.enclosed(order.key.file_name, limits) as enclosure:
            leader = launch(plan._replace(enter=enclosure.enter))
            try:
                return leader, enclosure.verify(leader.pid)
            except BaseException:
                abandon(leader)
                raise


def is_confined(work: Work) -> bool:
    """Return True if *work* has a sandbox or limits."""
    return work.sandbox.profile != "none" or work.limits != ResourceLimits()


def _with_room(limits: ResourceLimits) -> ResourceLimits:
    if not limits.pids:
        return limits
    return replace(limits, pids=limits.pids + _BUBBLEWRAP_PIDS)


def _namespace_of(leader: int, info: int) -> Namespace | None:
    """Return the namespace that bubblewrap reports; None if it ended without making one."""
    content = _read_info(info)
    if content is None:
        os.kill(leader, signal.SIGKILL)  # It is not reaped yet, so the number is still its own.
        return None
    first = msgspec.json.decode(content, type=_Info).child_pid if content else 0
    pidfd = hold(first) if first else None
    if pidfd is None:
        return None
    status = status_of(first)
    if status is None or status.parent != leader:
        os.close(pidfd)  # The process has ended, and its number may belong to another one.
        return None
    return Namespace(first, pidfd)


def _private_of(namespace: Namespace | None) -> int | None:
    """Return a descriptor of the sandbox's private folder, once it is arranged.

    None if the sandbox ends before. The path alone does not suffice: while bubblewrap arranges the
    mounts, the same path leads to folders of the machine and of bubblewrap.
    """
    if namespace is None:
        return None
    path = f"/proc/{namespace.first}/root{PRIVATE}"
    for _ in range(_LOOKS_MAX):
        if namespace.has_gone():
            return None
        with suppress(OSError):
            folder = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            if _is_arranged(folder):
                if _is_private(namespace.first, folder):
                    return folder
                namespace.kill()
            os.close(folder)
        select.select((), (), (), _LOOK_S)
    namespace.kill()
    return None


def _is_arranged(folder: int) -> bool:
    with suppress(OSError):
        # Any program may write to the machine's own folder of that name.
        if not os.path.samestat(os.fstat(folder), os.stat(PRIVATE)):
            os.rmdir(f"/proc/self/fd/{folder}/{ARRANGED}")
            return True
    return False


def _is_private(pid: int, folder: int) -> bool:
    """Return True if *folder* is the file system in memory that was asked for, whole.

    A folder of the machine in its place could have links, through which reports would be written
    outside the sandbox.
    """
    device = os.fstat(folder).st_dev
    found = [each[2:] for each in mounts_of(pid) if each.point == PRIVATE]
    return found == [(f"{os.major(device)}:{os.minor(device)}", "/", PRIVATE, "tmpfs")]


def _check_mounts(pid: int, expected: set[Mount], order: Order) -> None:
    """Compare the binds of a sandbox with those that were checked, before its program starts.

    Bubblewrap looks up the paths of descriptors again. Tasks that exchange what is there, or that
    have mounts of their own in another namespace, could lead it elsewhere.

    Raises:
        NotStartedError: They differ.
    """
    if not expected:
        return
    mounts = mounts_of(pid)
    targets = {normal_target(bind.target) for bind in order.work.sandbox.binds}
    found = {each for target in targets for each in mounted_at(target, mounts)}
    points = {each.point for each in found}
    if not found <= expected or not targets <= points:
        raise NotStartedError("the sources of its binds were exchanged while its sandbox was made")


def _pipe(reading: ExitStack, writing: ExitStack) -> tuple[int, int]:
    """Return a pipe whose ends are closed by *reading* and *writing*."""
    ends = os.pipe()
    for stack, end in zip((reading, writing), ends, strict=True):
        stack.callback(os.close, end)
    return ends


def _file(content: bytes, stack: ExitStack) -> int:
    """Return a descriptor from which *content* can be read; *stack* closes it."""
    descriptor = os.memfd_create("rota-bubblewrap", os.MFD_CLOEXEC)
    stack.callback(os.close, descriptor)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _read_info(info: int) -> bytes | None:
    """Return the JSON that bubblewrap writes; empty if it ends before, None after `_INFO_S`."""
    poll = select.poll()
    poll.register(info, select.POLLIN)
    content = b""
    while not content.endswith(b"}\n"):
        if not poll.poll(_INFO_S * 1e3):
            return None
        part = os.read(info, 4096)
        if not part:
            return b""
        content += part
    return content
