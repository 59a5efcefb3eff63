"""Tasks of a job: commands, limits and retries."""

from typing import Annotated, Literal

import msgspec

from rota.core.model.flow import CASES_MAX, ITEMS_MAX, PARALLEL_DEFAULT
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
    ProseText,
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
Items = Annotated[list[Json], msgspec.Meta(max_length=ITEMS_MAX)]
ExitCodes = Annotated[list[int], msgspec.Meta(max_length=256)]


class RetryBody(Body, frozen=True):
    """The retry policy of a task.

    Attributes:
        limit: The number of retries after the first attempt, 0 to 1,000.
        backoff: ``exponential``: from *delay*, multiplied by *factor*, up to *max_delay*;
            ``linear``: *delay* after the first failure, twice *delay* after the second, and so on,
            up to *max_delay*; ``fixed``: *delay*; ``explicit``: *delays*, of which the last one
            repeats.
        delay: The first or only delay.
        factor: The ratio of each delay to the previous one.
        max_delay: The longest delay.
        delays: The delays of ``explicit``, in order.
        jitter: The largest random addition to a delay, as a fraction of the delay, 0 to 1.
        max_elapsed: No retry begins later than this after the start of the first attempt; 0 is no
            limit.
        on_exit_codes: Exit statuses after which the task is retried. If this, *on_exceptions* and
            *on_causes* are empty, it is retried after every failure.
        never_on_exit_codes: Exit statuses after which the task is not retried.
        on_exceptions: Exceptions after which the task is retried, with their subclasses; names such
            as ``OutOfStock`` or ``shop.errors.OutOfStock``.
        never_on_exceptions: Exceptions after which the task is not retried, with their subclasses.
        on_causes: Causes after which the task is retried: ``timeout``, ``out_of_memory``, or a
            signal that ended the attempt, such as ``SIGKILL``.
        never_on_causes: Causes after which the task is not retried.
    """

    limit: RetryCount
    backoff: Literal["exponential", "linear", "fixed", "explicit"] = "exponential"
    delay: Timespan = "1s"
    factor: float = 2.0
    max_delay: Timespan = "5m"
    delays: Annotated[list[Timespan], msgspec.Meta(max_length=1_000)] = []
    jitter: Share = 0.0
    max_elapsed: Timespan = 0
    on_exit_codes: ExitCodes = []
    never_on_exit_codes: ExitCodes = []
    on_exceptions: Words = []
    never_on_exceptions: Words = []
    on_causes: Words = []
    never_on_causes: Words = []


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


class ForeachBody(Body, frozen=True):
    """A loop over items: each item is a step of its own, and some run at the same time.

    Attributes:
        items: The items, or an expression whose value is the list, such as ``results.list.files``.
        matrix: In place of *items*: a list, or an expression for one, for each name. The items are
            objects, one for each combination, such as ``{"os": "linux", "version": 3}``.
        max_parallel: The number of steps that may run at the same time, 1 to 1,000.
        tolerated_failures: The number of steps that may fail without a failure of the task.
        on_empty: What happens without items: ``skip``: the task is skipped; ``success``.
    """

    items: LineText | Items | None = None
    matrix: Annotated[dict[Word, LineText | Items], msgspec.Meta(max_length=16)] | None = None
    max_parallel: int = PARALLEL_DEFAULT
    tolerated_failures: int = 0
    on_empty: Literal["skip", "success"] = "skip"


class RepeatBody(Body, frozen=True):
    """A loop of rounds, one after the other.

    Attributes:
        until: An expression, evaluated after each round that succeeded: ``last.state == 'done'``.
            The loop ends when it is true.
        limit: The most rounds, 1 to 1,000; without success after these, the task fails.
        delay: The time between two rounds.
    """

    until: LineText
    limit: int
    delay: Timespan = "0s"


class SleepBody(Body, frozen=True):
    """A wait for an instant.

    Attributes:
        until: An expression for the instant (RFC 3339), such as ``params.start``.
    """

    until: LineText


class ApprovalBody(Body, frozen=True):
    """A wait for a person who approves or rejects.

    Attributes:
        message: What is to be approved; a template.
        form: The JSON Schema of what the person fills in, which is the result of the task; null for
            nothing.
        timeout: The time after which the task fails without an answer; 0 for no limit.
        on_reject: What a rejection does: ``fail`` or ``skip``.
        by: The subjects that may answer, as in bindings, such as ``group:sso/release``; empty for
            all callers with the verb ``run``.
    """

    message: ProseText = ""
    form: Annotated[dict[Word, Json], msgspec.Meta(max_length=1_000)] | None = None
    timeout: Timespan = "0s"
    on_reject: Literal["fail", "skip"] = "fail"
    by: Words = []


class WaitForEventBody(Body, frozen=True):
    """A wait for an event that is posted to the execution; the data of the event is the result.

    Attributes:
        event: The name of the event, unique in the execution; a template.
        timeout: The time after which the wait ends without the event; 0 for no limit.
        on_timeout: What the end of that time does: ``fail`` or ``skip``.
    """

    event: LineText
    timeout: Timespan = "0s"
    on_timeout: Literal["fail", "skip"] = "fail"


class CaseBody(Body, frozen=True):
    """A case of a switch.

    Attributes:
        when: An expression, such as ``params.size > 1000``; empty for the last case alone, which
            holds if no other does.
        to: Names of tasks that need the switch, which then run; empty for none.
    """

    when: LineText = ""
    to: Names = []


class RunJobBody(Body, frozen=True):
    """A run of another job.

    Attributes:
        job: Its name; a job of the same namespace.
        parameters: Parameters in place of those of the job, whose texts may be templates; null for
            those of the job.
    """

    job: Word
    parameters: Json = None


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
        when: An expression under which it starts, such as ``params.size > 3``; otherwise it is
            skipped. Empty for none.
        foreach: Items for each of which it runs: a list, an expression for one, or an object; null
            for none.
        repeat: A condition until which it runs again and again; null for none.
        sleep: A time for which it waits, in place of a command, or an object; null for none.
        approval: What a person has to approve, in place of a command: a text, or an object; null
            for none.
        switch: Cases, of which the first that holds chooses the tasks that run after this one, in
            place of a command; null for none.
        run_job: A job that it runs, in place of a command, until that has ended: a name, or an
            object; null for none.
        wait_for_event: An event that it waits for, in place of a command: a name, or an object;
            null for none.
        skip_exit_codes: Exit statuses with which its command skips it.
        handles_failure: Whether its success handles the failures of the tasks that it needs,
            directly or through others, so that they do not fail the execution.
        allow_failure: Whether its failure counts as a success for the execution, and for the rules
            of the tasks that need it.
        teardown: Whether it starts after all tasks that are no teardowns have ended, also if the
            execution failed, was cancelled or timed out.
    """

    name: NameText
    command: Command | None = None
    python: Word | PythonBody | None = None
    type: Word | None = None
    parameters: Json = None
    needs: Names = []
    trigger_rule: Literal[
        "all_success",
        "all_failed",
        "all_done",
        "all_done_min_one_success",
        "one_success",
        "one_failed",
        "one_done",
        "none_failed",
        "none_failed_min_one_success",
        "none_skipped",
        "all_skipped",
        "always",
    ] = "all_success"
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
    when: LineText = ""
    foreach: (
        LineText | Annotated[list[Json], msgspec.Meta(max_length=ITEMS_MAX)] | ForeachBody | None
    ) = None
    repeat: RepeatBody | None = None
    sleep: Timespan | SleepBody | None = None
    approval: LineText | ApprovalBody | None = None
    switch: Annotated[list[CaseBody], msgspec.Meta(max_length=CASES_MAX)] | None = None
    run_job: Word | RunJobBody | None = None
    wait_for_event: LineText | WaitForEventBody | None = None
    skip_exit_codes: ExitCodes = []
    handles_failure: bool = False
    allow_failure: bool = False
    teardown: bool = False


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
        when: The expression under which it starts; empty for none.
        foreach: Its loop over items; null for none.
        repeat: Its loop of rounds; null for none.
        sleep: The time for which it waits, or an object; null for none.
        approval: What a person has to approve; null for nothing.
        switch: Cases that choose the tasks that run after it; null for none.
        run_job: The job that it runs until that has ended; null for none.
        wait_for_event: The event that it waits for; null for none.
        handles_failure: Whether its success handles failures of the tasks that it needs.
        allow_failure: Whether its failure counts as a success.
        teardown: Whether it starts after all tasks that are no teardowns have ended.
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
    when: str = ""
    foreach: ForeachBody | None = None
    repeat: RepeatBody | None = None
    sleep: str | SleepBody | None = None
    approval: ApprovalBody | None = None
    switch: list[CaseBody] | None = None
    run_job: RunJobBody | None = None
    wait_for_event: WaitForEventBody | None = None
    handles_failure: bool = False
    allow_failure: bool = False
    teardown: bool = False
