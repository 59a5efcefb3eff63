"""From what a client says to run to what an executor is asked, and back.

What a task leaves out is as its job says, where that makes sense for it: a job's container and
sandbox are for its commands, its limits for whatever can be limited.
"""

from typing import Literal, TypeVar, cast

import msgspec

from rota.core.errors import Problem
from rota.core.model.attempt import Bind, Call, Image, Limits, Sandbox, Work
from rota.core.model.sizes import format_size
from rota.core.model.work_checks import LIMITED, SANDBOXED
from rota.node.api.documents.field_reader import Reader
from rota.wire.documents import (
    ContainerBody,
    JobBody,
    Json,
    LimitsBody,
    Profile,
    PythonBody,
    SandboxBody,
    TaskBody,
)

OWN_FIELDS = ("python", "container")
"""Types that have a field of their own, in which they are said."""

T = TypeVar("T")


def work_of(task: TaskBody, job: JobBody, reader: Reader, pointer: str) -> Work:
    """Return what *task* of *job* asks for; *pointer* is where it stands in the job's body."""
    reader.problems += _problems_of_ways(task, pointer)
    call = _call(task.python, reader, f"{pointer}/python")
    image = _image(_container(task, job), reader, f"{pointer}/container")
    executor = "python" if call else "container" if image else task.type or "process"
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
            given(task.sandbox, job.sandbox if executor in SANDBOXED else "none"),
            reader,
            f"{pointer}/sandbox",
        ),
        limits=_limits(
            given(task.limits, job.limits if executor in LIMITED else None),
            reader,
            f"{pointer}/limits",
        ),
        call=call,
        image=image,
    )


def given(value: T | None, otherwise: T) -> T:
    """Return what a task says, or what its job says in its stead."""
    return otherwise if value is None else value


def _problems_of_ways(task: TaskBody, pointer: str) -> list[Problem]:
    ways = {"command": task.command, "python": task.python, "type": task.type}
    said = [way for way, value in ways.items() if value is not None]
    if len(said) > 1:
        detail = (
            "a task has one of command, python, type and container (which may have a command), "
            f"not {' and '.join(said)}"
        )
        return [Problem(f"{pointer}/{said[1]}", detail)]
    if task.container and said and said != ["command"]:
        return [Problem(f"{pointer}/container", f"a task with a {said[0]} cannot have one")]
    if task.type in OWN_FIELDS:
        return [Problem(f"{pointer}/type", f"give the field {task.type!r} in its place")]
    return []


def _container(task: TaskBody, job: JobBody) -> str | ContainerBody | None:
    if task.python is not None or task.type is not None:
        return task.container
    return given(task.container, job.container)


def _call(asked: str | PythonBody | None, reader: Reader, pointer: str) -> Call | None:
    match asked:
        case None:
            return None
        case str():
            return Call(function=reader.function(asked, pointer))
        case PythonBody():
            arguments = {"args": asked.args, "kwargs": asked.kwargs}
            return Call(
                function=reader.function(asked.function, f"{pointer}/function"),
                arguments=reader.json(arguments, pointer) if any(arguments.values()) else "",
                interpreter=asked.interpreter,
                path=tuple(asked.path),
            )


def _image(asked: str | ContainerBody | None, reader: Reader, pointer: str) -> Image | None:
    match asked:
        case None | "":
            return None
        case str():
            return Image(name=reader.image(asked, pointer))
        case ContainerBody():
            return Image(
                name=reader.image(asked.image, f"{pointer}/image"),
                pull=asked.pull,
                network=asked.network,
                binds=reader.binds(asked.binds, f"{pointer}/binds"),
                user=asked.user,
            )


def _sandbox(asked: Profile | SandboxBody, reader: Reader, pointer: str) -> Sandbox:
    if not isinstance(asked, SandboxBody):
        return _plain(reader.profile(asked, pointer))
    plain = _plain(reader.profile(asked.profile, f"{pointer}/profile"))
    return Sandbox(
        profile=plain.profile,
        has_network=given(asked.network, plain.has_network),
        binds=reader.binds(asked.binds, f"{pointer}/binds"),
    )


def _plain(profile: str) -> Sandbox:
    """Return what a profile is by itself."""
    return Sandbox(profile=profile, has_network=profile != "strict")


def _limits(asked: LimitsBody | None, reader: Reader, pointer: str) -> Limits:
    if asked is None:
        return Limits()
    return Limits(
        cpu=reader.limit(asked.cpu, f"{pointer}/cpu"),
        memory=reader.size(asked.memory, f"{pointer}/memory"),
        pids=reader.limit(asked.pids, f"{pointer}/pids"),
    )


# -- and back --------------------------------------------------------------------------------------


class _Arguments(msgspec.Struct):
    """`Call.arguments`."""

    args: list[Json] = []
    kwargs: dict[str, Json] = {}


def python_body(work: Work) -> str | PythonBody | None:
    """Return what `PythonBody` says of *work*, in the shortest form."""
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
    """Return what `ContainerBody` says of *work*, in the shortest form."""
    image = work.image
    if image is None:
        return None
    if image == Image(name=image.name):
        return image.name
    return ContainerBody(
        image=image.name,
        pull=cast("Literal['missing', 'always', 'never']", image.pull),  # as it was read
        network=image.network,
        binds=[bind_text(bind) for bind in image.binds],
        user=image.user,
    )


def sandbox_body(work: Work) -> Profile | SandboxBody:
    """Return what `SandboxBody` says of *work*, in the shortest form."""
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
    """Return what `LimitsBody` says of *work*; None for no limit."""
    limits = work.limits
    if limits == Limits():
        return None
    memory = format_size(limits.memory) if limits.memory else None
    return LimitsBody(cpu=limits.cpu or None, memory=memory, pids=limits.pids or None)


def bind_text(bind: Bind) -> str:
    """Return *bind* as a body has it."""
    return f"{bind.source}:{bind.target}:{'rw' if bind.is_writable else 'ro'}"
