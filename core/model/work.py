"""Work of a task: a program, a function or a container, with its surroundings and limits.

A job's definition and the orders to executors both contain these records.
"""

from typing import Annotated

import msgspec

from rota.core.model.checked_fields import CheckedDuration, Count
from rota.core.timing.instants import Duration

CPUS_MAX = 1_000_000.0


class Bind(msgspec.Struct, frozen=True, array_like=True):
    """A file or folder of the machine that is visible to an attempt; both paths are absolute."""

    source: str
    target: str
    is_writable: bool = False


class Sandbox(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """The sandbox of an attempt.

    Attributes:
        profile: ``none``, ``default`` or ``strict``; see docs/reference/sandbox.md.
        has_network: Whether the attempt has network access: with ``strict`` to other machines only,
            otherwise to the machine's network, loopback included.
        binds: Additional files and folders that are visible to the attempt.
    """

    profile: str = "none"
    has_network: bool = True
    binds: tuple[Bind, ...] = ()


class ResourceLimits(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True
):
    """Resource limits of an attempt, for all its processes together; zero is no limit.

    Attributes:
        cpu: The number of processors; 0.5 is half a processor.
        memory: The memory in bytes.
        pids: The number of processes and threads.
    """

    cpu: Annotated[float, msgspec.Meta(ge=0, le=CPUS_MAX)] = 0.0
    memory: Count = 0
    pids: Count = 0


class Call(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """A Python function to be called.

    Attributes:
        function: The name of the function: ``module:function``.
        arguments: The arguments as JSON, ``{"args": [...], "kwargs": {...}}``; empty for none.
        interpreter: The absolute path of a Python interpreter; empty for that of the node.
        path: Folders that are searched first for modules.
    """

    function: str
    arguments: str = ""
    interpreter: str = ""
    path: tuple[str, ...] = ()


class Image(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """The image of a container, and how the container is run.

    Attributes:
        name: The name of the image, with tag or digest.
        pull: When the image is pulled: ``missing``, ``always`` or ``never``.
        network: The engine's network for the container: ``bridge``, ``none``, ``host`` or a
            network's name; empty for the engine's default.
        binds: Files and folders of the machine that are visible in the container.
        user: ``uid:gid`` or a user name; empty for the user of the image.
    """

    name: str
    pull: str = "missing"
    network: str = ""
    binds: tuple[Bind, ...] = ()
    user: str = ""


class SecretNames(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """The secrets of an attempt, by their names in the namespace of its job; never their values.

    Attributes:
        env: Pairs of a variable and the name of the secret that is its value, sorted.
        files: Pairs of a file's name and the name of the secret that is its content, sorted.
    """

    env: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the secrets, each once, sorted."""
        return tuple(sorted({name for _, name in (*self.env, *self.files)}))


Selector = tuple[tuple[str, str], ...]
"""Labels that a node must have to run a task, sorted; empty for any node."""


class Work(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, array_like=True):
    """The work of a task, as an executor runs it.

    Attributes:
        executor: The name of the executor, such as ``process``, ``python`` or ``container``.
        argv: Program and arguments; ``process`` needs exactly one of *argv* and *shell*.
        shell: A line for ``/bin/sh -c``.
        env: Variables that are added to the node's minimal environment.
        cwd: The absolute path of the working directory; empty for a private one, which is deleted
            after the attempt.
        stdin: Text on standard input; empty for none.
        timeout: The maximum time from start to end of one attempt; 0 for no limit.
        stop_grace: The time between TERM and KILL when the attempt is stopped.
        parameters: The parameters of a job type, as JSON.
        sandbox: The sandbox of a process.
        limits: The resource limits.
        call: The function to be called; only for ``python``.
        image: The image to be run; only for ``container``, where *argv* or *shell* replace the
            command of the image.
        secrets: The secrets that become variables and files of the attempt; None for none.
        has_identity: Whether the attempt gets a token of its own for the API.
        user: The user of the machine as which the program runs; only for the executor ``user``. It
            has a name of its own, so that a node of an earlier version, which does not read this
            field, cannot run the program as its own user.
    """

    executor: str = "process"
    argv: tuple[str, ...] = ()
    shell: str = ""
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    stdin: str = ""
    timeout: CheckedDuration = Duration(0)
    stop_grace: CheckedDuration = Duration(10_000_000)
    parameters: str = ""
    sandbox: Sandbox = Sandbox()
    limits: ResourceLimits = ResourceLimits()
    call: Call | None = None
    image: Image | None = None
    secrets: SecretNames | None = None
    has_identity: bool = False
    user: str = ""

    @property
    def has_secret_values(self) -> bool:
        """Whether the attempt gets values that are in memory only, and masked in its output."""
        return self.secrets is not None or self.has_identity
