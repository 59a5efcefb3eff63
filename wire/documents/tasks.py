"""The tasks of a job: what they run, within which limits, and when they are tried again."""

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
ExitCodes = Annotated[list[int], msgspec.Meta(max_length=256)]


class RetryBody(Body, frozen=True):
    """When a failed task is tried again.

    Attributes:
        limit: Retries after the first attempt, 0 to 1,000.
        backoff: ``exponential`` from *delay* by *factor* up to *max_delay*, ``fixed`` at *delay*,
            or ``explicit``: *delays*, the last one repeating.
        delay: The first or only delay.
        factor: By which each delay is longer than the one before.
        max_delay: The longest delay.
        delays: The delays of ``explicit``, in order.
        jitter: Share of a delay, 0 to 1, that chance adds to it.
        on_exit_codes: Retry after these only; empty for all.
        never_on_exit_codes: Never retry after these.
        on_exceptions: Retry only after these and what derives from them, or after
            *on_exit_codes*; names such as ``OutOfStock`` or ``shop.errors.OutOfStock``.
        never_on_exceptions: Never retry after these and what derives from them.
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
    """What a command is kept from.

    Attributes:
        profile: ``none``, ``default`` or ``strict``.
        network: Whether it has the network: with ``strict`` that of other machines, without this
            one's loopback; with ``default`` all of the machine's. Null: ``strict`` has none.
        binds: Files and folders of the machine that it sees besides: ``/source:/target``, read
            only; with ``:rw`` it may write there.
    """

    profile: Profile = "default"
    network: bool | None = None
    binds: Binds = []


class LimitsBody(Body, frozen=True):
    """What an attempt may use, all its processes together; null is no limit.

    Attributes:
        cpu: Processors, 0.01 to 1,024; 0.5 for half of one.
        memory: Bytes, or text such as ``512MiB``; 1 MiB to 1,024 TiB.
        pids: Processes and threads, 1 to 4,194,304.
    """

    cpu: float | None = None
    memory: int | SizeText | None = None
    pids: int | None = None


class PythonBody(Body, frozen=True):
    """A Python function to be called.

    Attributes:
        function: ``module:function``.
        args: Its arguments by position.
        kwargs: Its arguments by name; with *args* at most 120,000 bytes of JSON.
        interpreter: Absolute path of the Python of its environment; empty for the node's own.
        path: Folders, absolute, where modules are looked for first.
    """

    function: Word
    args: list[Json] = []
    kwargs: Annotated[dict[Word, Json], msgspec.Meta(max_length=1_000)] = {}
    interpreter: PathText = ""
    path: Annotated[list[PathText], msgspec.Meta(max_length=256)] = []


class ContainerBody(Body, frozen=True):
    """A container to be run.

    Attributes:
        image: Its name, with tag or digest.
        pull: When the image is pulled: ``missing``, ``always`` or ``never``.
        network: ``bridge``, ``none``, ``host`` or one of the engine's networks; empty for the
            engine's default.
        binds: Files and folders of the machine: ``/source:/target``, read only; with ``:rw`` it may
            write there.
        user: A name or ``uid:gid``; empty for the image's.
    """

    image: LineText
    pull: Literal["missing", "always", "never"] = "missing"
    network: Word = ""
    binds: Binds = []
    user: Word = ""


class TaskBody(Body, frozen=True):
    """One task of a job; what it leaves out is as the job says.

    Attributes:
        name: 1 to 128 letters, digits, dots, underscores or hyphens; unique in its job.
        command: A line for ``/bin/sh -c``, or a program and its arguments.
        python: ``module:function`` or more about it, in place of a command.
        type: A registered way to run *parameters*, in place of a command.
        parameters: Of the type; a task with a command does not get them.
        needs: Names of tasks of this job that have to end first.
        trigger_rule: What the needed tasks have to end as.
        env: Variables, besides the job's.
        cwd: Its working directory; null for the job's.
        stdin: Its standard input; null for the job's.
        retries: How often it is tried again; null for the job's.
        timeout: Of one attempt; null for the job's.
        stop_grace: Between TERM and KILL; null for the job's.
        container: An image, or more about it, that runs its command or what the image is made to
            run; null for the job's, empty for none.
        sandbox: A profile, or more about it, for its command; null for the job's.
        limits: What it may use; null for the job's.
        node_selector: Labels that a node has to have to run it; null for the job's.
    """

    name: NameText
    command: Command | None = None
    python: Word | PythonBody | None = None
    type: Word | None = None
    parameters: Json = None
    needs: Names = []
    trigger_rule: Literal["all_success", "all_done", "one_failed"] = "all_success"
    env: Environment = {}
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
    """What a task's program is kept from.

    Attributes:
        profile: ``default`` or ``strict``.
        network: Whether it has the network: with ``strict`` that of other machines, without this
            one's loopback; with ``default`` all of the machine's.
        binds: What it sees besides: ``/source:/target:ro`` or ``:rw``.
    """

    profile: str
    network: bool = True
    binds: list[str] = []


class LimitsView(View, frozen=True):
    """What an attempt may use, all its processes together; null is no limit.

    Attributes:
        cpu: Processors.
        memory_bytes: Bytes.
        pids: Processes and threads.
    """

    cpu: float | None = None
    memory_bytes: int | None = None
    pids: int | None = None


class TaskSpecView(View, frozen=True):
    """A task of a job, as defined.

    Attributes:
        name: Unique in its job.
        needs: Names of the tasks that have to end first.
        trigger_rule: What these have to end as.
        type: How it is run; ``process`` for a command, ``python``, ``container``.
        command: Null for other types.
        retries: How often it is tried again.
        timeout_s: Of one attempt; 0 is no limit.
        python: The function that it calls; null for other types.
        container: The image that it runs; null for other types.
        sandbox: Null for none.
        limits: Null for none.
    """

    name: str
    needs: list[str]
    trigger_rule: str
    type: str
    command: str | list[str] | None
    retries: int
    timeout_s: float
    python: str | None = None
    container: str | None = None
    sandbox: SandboxView | None = None
    limits: LimitsView | None = None
