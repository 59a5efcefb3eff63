"""Conversion between the bodies of tasks and the work of executors.

A field that a task omits has the value of the job, if that value applies to the task: the job's
container and sandbox apply to commands, and its limits to every task type that supports limits.
"""

from typing import Literal, TypeVar, cast

import msgspec

from rota.core.errors import Problem
from rota.core.model.sizes import format_size
from rota.core.model.work import Bind, Call, Image, ResourceLimits, Sandbox, SecretNames, Work
from rota.core.model.work_kinds import OWN_FIELDS, kind_of
from rota.core.quoting import in_quotes
from rota.wire.bodies.field_reader import Reader
from rota.wire.documents import (
    ContainerBody,
    JobBody,
    Json,
    LimitsBody,
    Profile,
    PythonBody,
    SandboxBody,
    SecretsBody,
    TaskBody,
)

T = TypeVar("T")


def work_of(task: TaskBody, job: JobBody, reader: Reader, pointer: str) -> Work:
    """Return the work of *task* of *job*; *pointer* is the JSON pointer of the task."""
    reader.problems += _problems_of_alternatives(task, pointer)
    call = _call(task.python, reader, f"{pointer}/python")
    image = _image(_container(task, job), reader, f"{pointer}/container")
    user = given(task.user, job.user)
    program = "user" if user else "process"
    executor = "python" if call else "container" if image else task.type or program
    kind = kind_of(executor)
    return Work(
        executor=executor,
        argv=tuple(task.command) if isinstance(task.command, list) else (),
        shell=task.command if isinstance(task.command, str) else "",
        env=tuple(sorted({**job.env, **task.env}.items())),
        cwd=given(task.cwd, job.cwd),
        stdin=given(task.stdin, job.stdin),
        timeout=reader.timespan(given(task.timeout, job.timeout), f"{pointer}/timeout"),
        stop_grace=reader.timespan(given(task.stop_grace, job.stop_grace), f"{pointer}/stopGrace"),
        parameters=reader.json(task.parameters, f"{pointer}/parameters"),
        sandbox=_sandbox(
            given(task.sandbox, job.sandbox if kind.has_sandbox or kind.is_program else "none"),
            reader,
            f"{pointer}/sandbox",
        ),
        limits=_limits(
            given(task.limits, job.limits if kind.has_limits else None),
            reader,
            f"{pointer}/limits",
        ),
        call=call,
        image=image,
        secrets=_secrets(job.secrets or SecretsBody(), task.secrets or SecretsBody()),
        has_identity=given(task.identity, job.identity),
        user=user,
    )


def given(value: T | None, otherwise: T) -> T:
    """Return the task's value, or the job's value if the task has none."""
    return otherwise if value is None else value


def _problems_of_alternatives(task: TaskBody, pointer: str) -> list[Problem]:
    alternatives = {
        "command": task.command,
        "python": task.python,
        "type": task.type,
        "sleep": task.sleep,
        "approval": task.approval,
        "switch": task.switch,
        "runJob": task.run_job,
        "waitForEvent": task.wait_for_event,
    }
    present = [name for name, value in alternatives.items() if value is not None]
    if len(present) > 1:
        detail = (
            f"the task has {' and '.join(present)}; give one of command, python, type, sleep, "
            "approval, switch, runJob, waitForEvent and container (which may have a command)"
        )
        return [Problem(f"{pointer}/{present[1]}", detail)]
    if task.container and present and present != ["command"]:
        detail = f"a task with the field {present[0]} cannot have a container; omit one of them"
        return [Problem(f"{pointer}/container", detail)]
    if task.type in OWN_FIELDS:
        detail = (
            f"{in_quotes(task.type)} is a built-in task type; use the field {task.type} instead"
        )
        return [Problem(f"{pointer}/type", detail)]
    return []


def _container(task: TaskBody, job: JobBody) -> str | ContainerBody | None:
    if task.python is not None or task.type is not None:
        return task.container
    return given(task.container, job.container)


def _call(body: str | PythonBody | None, reader: Reader, pointer: str) -> Call | None:
    match body:
        case None:
            return None
        case str():
            return Call(function=reader.function(body, pointer))
        case PythonBody():
            arguments = {"args": body.args, "kwargs": body.kwargs}
            return Call(
                function=reader.function(body.function, f"{pointer}/function"),
                arguments=reader.json(arguments, pointer) if any(arguments.values()) else "",
                interpreter=body.interpreter,
                path=tuple(body.path),
            )


def _image(body: str | ContainerBody | None, reader: Reader, pointer: str) -> Image | None:
    match body:
        case None | "":
            return None
        case str():
            return Image(name=reader.image(body, pointer))
        case ContainerBody():
            return Image(
                name=reader.image(body.image, f"{pointer}/image"),
                pull=body.pull,
                network=body.network,
                binds=reader.binds(body.binds, f"{pointer}/binds"),
                user=body.user,
            )


def _sandbox(body: Profile | SandboxBody, reader: Reader, pointer: str) -> Sandbox:
    if not isinstance(body, SandboxBody):
        return _plain(reader.profile(body, pointer))
    plain = _plain(reader.profile(body.profile, f"{pointer}/profile"))
    return Sandbox(
        profile=plain.profile,
        has_network=given(body.network, plain.has_network),
        binds=reader.binds(body.binds, f"{pointer}/binds"),
    )


def _plain(profile: str) -> Sandbox:
    """Return the sandbox of a profile without further fields."""
    return Sandbox(profile=profile, has_network=profile != "strict")


def _limits(body: LimitsBody | None, reader: Reader, pointer: str) -> ResourceLimits:
    if body is None:
        return ResourceLimits()
    return ResourceLimits(
        cpu=reader.limit(body.cpu, f"{pointer}/cpu"),
        memory=reader.size(body.memory, f"{pointer}/memory"),
        pids=reader.limit(body.pids, f"{pointer}/pids"),
    )


def _secrets(job: SecretsBody, task: SecretsBody) -> SecretNames | None:
    found = SecretNames(
        env=tuple(sorted({**job.env, **task.env}.items())),
        files=tuple(sorted({**job.files, **task.files}.items())),
    )
    return None if found == SecretNames() else found


# -- work to bodies --------------------------------------------------------------------------------


class _Arguments(msgspec.Struct):
    """The form of `Call.arguments`."""

    args: list[Json] = []
    kwargs: dict[str, Json] = {}


def python_body(work: Work) -> str | PythonBody | None:
    """Return the ``python`` field of *work*, in its shortest form."""
    call = work.call
    if call is None:
        return None
    if call == Call(function=call.function):
        return call.function
    arguments = msgspec.json.decode(call.arguments or "{}", type=_Arguments)
    return PythonBody(
        function=call.function,
        args=arguments.args,
        kwargs=arguments.kwargs,
        interpreter=call.interpreter,
        path=list(call.path),
    )


def container_body(work: Work) -> str | ContainerBody | None:
    """Return the ``container`` field of *work*, in its shortest form."""
    image = work.image
    if image is None:
        return None
    if image == Image(name=image.name):
        return image.name
    return ContainerBody(
        image=image.name,
        pull=cast(
            "Literal['missing', 'always', 'never']", image.pull
        ),  # It is one of these, since it was read from a body.
        network=image.network,
        binds=[bind_text(bind) for bind in image.binds],
        user=image.user,
    )


def sandbox_body(work: Work) -> Profile | SandboxBody:
    """Return the ``sandbox`` field of *work*, in its shortest form."""
    sandbox = work.sandbox
    plain = _plain(sandbox.profile)
    if sandbox == plain:
        return sandbox.profile
    return SandboxBody(
        profile=sandbox.profile,
        network=None if sandbox.has_network == plain.has_network else sandbox.has_network,
        binds=[bind_text(bind) for bind in sandbox.binds],
    )


def limits_body(work: Work) -> LimitsBody | None:
    """Return the ``limits`` field of *work*; None if it has no limit."""
    limits = work.limits
    if limits == ResourceLimits():
        return None
    memory = format_size(limits.memory) if limits.memory else None
    return LimitsBody(cpu=limits.cpu or None, memory=memory, pids=limits.pids or None)


def secrets_body(work: Work) -> SecretsBody | None:
    """Return the ``secrets`` field of *work*; None if it has no secrets."""
    secrets = work.secrets
    if secrets is None:
        return None
    return SecretsBody(env=dict(secrets.env), files=dict(secrets.files))


def bind_text(bind: Bind) -> str:
    """Return *bind* in the form of a body."""
    return f"{bind.source}:{bind.target}:{'rw' if bind.is_writable else 'ro'}"
