"""Tasks of a job: commands, limits and retries."""

from typing import Annotated, Literal

import msgspec

from rota.wire.documents.document import (
    BindText,
    Body,
    Command,
    Environment,
    InputText,
    Json,
    Labels,
    LineText,
    Names,
    NameText,
    PathText,
    Profile,
    RetryCount,
    Share,
    SizeText,
    Timespan,
    View,
    Word,
    Words,
)

Binds = Annotated[list[BindText], msgspec.Meta(max_length=256)]
SecretsByPlace = Annotated[dict[Word, Word], msgspec.Meta(max_length=64)]
ExitCodes = Annotated[list[int], msgspec.Meta(max_length=256)]


class RetryBody(Body, frozen=True):
    """The retry policy of a task.

    Attributes:
        limit: The number of retries after the first attempt, 0 to 1,000.
        backoff: ``exponential``: from *delay*, multiplied by *factor*, up to *max_delay*;
            ``fixed``: *delay*; ``explicit``: *delays*, of which the last one repeats.
        delay: The first or only delay.
        factor: The ratio of each delay to the previous one.
        max_delay: The longest delay.
        delays: The delays of ``explicit``, in order.
        jitter: The largest random addition to a delay, as a fraction of the delay, 0 to 1.
        on_exit_codes: Exit statuses after which the task is retried. If this and *on_exceptions*
            are empty, it is retried after every failure.
        never_on_exit_codes: Exit statuses after which the task is not retried.
        on_exceptions: Exceptions after which the task is retried, with their subclasses; names such
            as ``OutOfStock`` or ``shop.errors.OutOfStock``.
        never_on_exceptions: Exceptions after which the task is not retried, with their subclasses.
    """

    limit: RetryCount
    backoff: Literal["exponential", "fixed", "explicit"] = "exponential"
    delay: Timespan = "1s"
    factor: float = 2.0
    max_delay: Timespan = "5m"
    delays: Annotated[list[Timespan], msgspec.Meta(max_length=1_000)] = []
    jitter: Share = 0.0
    on_exit_codes: ExitCodes = []
    never_on_exit_codes: ExitCodes = []
    on_exceptions: Words = []
    never_on_exceptions: Words = []


class SandboxBody(Body, frozen=True):
    """The sandbox of a command.

    Attributes:
        profile: ``none``, ``default`` or ``strict``.
        network: Whether the command has network access. With ``strict`` it reaches other machines
            but not the loopback address of its own machine; with ``default`` it uses the network of
            the machine. If null, ``strict`` has no network access and ``default`` has it.
        binds: Further files and folders of the machine in the sandbox: ``/source:/target``, read
            only; writable with ``:rw``.
    """

    profile: Profile = "default"
    network: bool | None = None
    binds: Binds = []


class LimitsBody(Body, frozen=True):
    """The limits of an attempt, for all its processes together; null means no limit.

    Attributes:
        cpu: The number of processors, 0.01 to 1,024; 0.5 is half a processor.
        memory: Memory in bytes, or as text such as ``512MiB``; 1 MiB to 1,024 TiB.
        pids: The number of processes and threads, 1 to 4,194,304.
    """

    cpu: float | None = None
    memory: int | SizeText | None = None
    pids: int | None = None


class PythonBody(Body, frozen=True):
    """A call of a Python function.

    Attributes:
        function: The function, as ``module:function``.
        args: Its positional arguments.
        kwargs: Its keyword arguments; with *args* at most 120,000 bytes of JSON.
        interpreter: The absolute path of the Python interpreter of its environment; empty for that
            of the node.
        path: Absolute paths of folders that are searched first for modules.
    """

    function: Word
    args: list[Json] = []
    kwargs: Annotated[dict[Word, Json], msgspec.Meta(max_length=1_000)] = {}
    interpreter: PathText = ""
    path: Annotated[list[PathText], msgspec.Meta(max_length=256)] = []


class ContainerBody(Body, frozen=True):
    """A container.

    Attributes:
        image: The name of the image, with tag or digest.
        pull: When the image is pulled: ``missing``, ``always`` or ``never``.
        network: ``bridge``, ``none``, ``host`` or a network of the container engine; empty for the
            engine's default.
        binds: Files and folders of the machine in the container: ``/source:/target``, read only;
            writable with ``:rw``.
        user: A name or ``uid:gid``; empty for the user of the image.
    """

    image: LineText
    pull: Literal["missing", "always", "never"] = "missing"
    network: Word = ""
    binds: Binds = []
    user: Word = ""


class SecretsBody(Body, frozen=True):
    """The secrets of a task, by their names in the namespace of the job.

    Attributes:
        env: For each environment variable, the secret that is its value; not for containers.
        files: For each file, the secret that is its content. The files are in the folder whose path
            is in the variable ``ROTA_SECRETS``.
    """

    env: SecretsByPlace = {}
    files: SecretsByPlace = {}


class TaskBody(Body, frozen=True):
    """A task of a job; omitted fields have the values of the job.

    Attributes:
        name: Its name, 1 to 128 letters, digits, dots, underscores or hyphens; unique in its job.
        command: A line for ``/bin/sh -c``, or a program and its arguments.
        python: A Python function in place of a command: ``module:function``, or an object.
        type: A task type that the node has, in place of a command; it runs *parameters*.
        parameters: The parameters of the type; a task with a command does not get them.
        needs: Names of tasks of this job that must end before it starts.
        trigger_rule: The condition on the outcomes of the needed tasks.
        env: Environment variables, in addition to those of the job.
        secrets: Secrets as variables and files, in addition to those of the job; null for none.
        user: The user of the machine as which its command runs; null for that of the job, empty
            for that of the node.
        identity: Whether it gets a token for this API; null for the value of the job.
        cwd: Its working directory; null for that of the job.
        stdin: Its standard input; null for that of the job.
        retries: Its number of retries or retry policy; null for that of the job.
        timeout: The time limit of an attempt; null for that of the job.
        stop_grace: The time between SIGTERM and SIGKILL; null for that of the job.
        container: Its container: an image, or an object. Without a command the image's own command
            runs. Null for that of the job, empty for none.
        sandbox: The sandbox of its command: a profile, or an object; null for that of the job.
        limits: Its resource limits; null for those of the job.
        node_selector: Labels that a node must have to run it; null for those of the job.
    """

    name: NameText
    command: Command | None = None
    python: Word | PythonBody | None = None
    type: Word | None = None
    parameters: Json = None
    needs: Names = []
    trigger_rule: Literal["all_success", "all_done", "one_failed"] = "all_success"
    env: Environment = {}
    secrets: SecretsBody | None = None
    user: Word | None = None
    identity: bool | None = None
    cwd: PathText | None = None
    stdin: InputText | None = None
    retries: RetryCount | RetryBody | None = None
    timeout: Timespan | None = None
    stop_grace: Timespan | None = None
    container: LineText | ContainerBody | None = None
    sandbox: Profile | SandboxBody | None = None
    limits: LimitsBody | None = None
    node_selector: Labels | None = None


class SandboxView(View, frozen=True):
    """The sandbox of a task.

    Attributes:
        profile: ``default`` or ``strict``.
        network: Whether the task has network access. With ``strict`` it reaches other machines but
            not the loopback address of its own machine; with ``default`` it uses the network of the
            machine.
        binds: Further files and folders in the sandbox: ``/source:/target:ro`` or ``:rw``.
    """

    profile: str
    network: bool = True
    binds: list[str] = []


class LimitsView(View, frozen=True):
    """The limits of an attempt, for all its processes together; null means no limit.

    Attributes:
        cpu: The number of processors.
        memory: Memory, such as ``512MiB``.
        pids: The number of processes and threads.
    """

    cpu: float | None = None
    memory: str | None = None
    pids: int | None = None


class SecretsView(View, frozen=True):
    """The secrets of a task, by their names in the namespace of the job.

    Attributes:
        env: The secret of each environment variable.
        files: The secret of each file in the folder ``ROTA_SECRETS``.
    """

    env: dict[str, str] = {}
    files: dict[str, str] = {}


class TaskSpecView(View, frozen=True):
    """A task of a job, as defined.

    Attributes:
        name: Its name, unique in its job.
        needs: Names of the tasks that must end before it starts.
        trigger_rule: The condition on the outcomes of these tasks.
        type: Its type: ``process`` for a command, ``python`` for a function, ``container``, or
            another task type of the node.
        command: Its command; null if it has none.
        retries: Its number of retries.
        timeout: The time limit of an attempt, such as ``1m30s``; ``0s`` is no limit.
        python: The function that it calls; null for other types.
        container: The image that it runs; null for other types.
        sandbox: Its sandbox; null for none.
        limits: Its resource limits; null for none.
        secrets: The names of its secrets; null for none.
        user: The user of the machine as which its command runs; null for that of the node.
        identity: Whether it gets a token for this API.
    """

    name: str
    needs: list[str]
    trigger_rule: str
    type: str
    command: str | list[str] | None
    retries: int
    timeout: str
    python: str | None = None
    container: str | None = None
    sandbox: SandboxView | None = None
    limits: LimitsView | None = None
    secrets: SecretsView | None = None
    user: str | None = None
    identity: bool = False
