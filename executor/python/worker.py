"""The program of a worker: calls the functions that the executor names, one after the other.

The interpreter of the task's environment runs it, where rota need not be installed: one file, the
standard library only, Python 3.9 or newer. `rota.executor.python.worker_protocol` defines its
settings and the messages on the socket.

Standard output and error are one pipe. Both are flushed before the message that a call has ended,
so the pipe then contains the whole output of the attempt.

Before a call, the program restarts itself if the file of a module that it has loaded has changed,
so that the call runs the new code.

TERM requests the end of the current attempt. Its effect depends on the function:

- ``async def``: the function's asyncio task is cancelled.
- a function with a parameter ``ctx``: ``ctx.cancelled`` becomes true, and nothing else happens.
- any other function: `KeyboardInterrupt` is raised at its current line, as by Ctrl-C.
"""

from __future__ import annotations

import importlib
import inspect
import io
import json
import os
import resource
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:  # asyncio is imported at the first coroutine: that takes 30 ms.
    import asyncio
    import datetime

    Stamp = tuple[int, int]

Json = Any  # Any: JSON has values of many types.

RESULT_BYTES_MAX = 1 << 20  # These are the limits of rota.core.model.attempt.
CHECKPOINT_BYTES_MAX = 64 << 10
MESSAGE_BYTES_MAX = 4 << 10
TRACEBACK_BYTES_MAX = 16 << 10
REASON_CHARACTERS_MAX = 300

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_NAMES_SHOWN = 10
_STANDARD = os.path.dirname(os.__file__) + os.sep

CHECK_S = 0.5
CLOCK_TICK_S = 0.01  # Times of files are those of the kernel's last tick.
UNCERTAIN = (-1, -1)  # The stamp of a file that may have been written after its import.
FILES_MAX = 2_000  # A check of all of them takes two milliseconds.

_KILL_ROUNDS = 100  # Each round ends a generation of processes; only a fork bomb has more.
_PR_SET_CHILD_SUBREAPER = 36


class Receiver(Protocol):
    """Receives the reports of a function."""

    def send(self, message: dict[str, Json], *, of: Context | None = None) -> None:
        """Take a message of the type ``told``."""
        ...


class Context:
    """Data and reports of the current attempt: the argument ``ctx`` of a function.

    It may be used in any thread of the worker until the function has ended.

    Attributes:
        execution_id: The execution.
        job: The job's name.
        namespace: The job's namespace.
        task: The task's name.
        attempt: The attempt's number within its task, from 1.
        token: The fencing token: 32 hexadecimal digits that sort by age.
        idempotency_key: A key that is the same for every attempt of this execution.
        cancelled: True once a user, the timeout or the node has requested the attempt's end.
    """

    def __init__(self, worker: Receiver, call: dict[str, Json]) -> None:
        variables = call["variables"]
        self.execution_id = variables["ROTA_EXECUTION_ID"]
        self.job = variables.get("ROTA_JOB", "")
        self.namespace = variables.get("ROTA_NAMESPACE", "")
        self.task = variables["ROTA_TASK"]
        self.attempt = int(variables["ROTA_ATTEMPT"])
        self.token = variables["ROTA_TOKEN"]
        self.idempotency_key = variables["ROTA_IDEMPOTENCY_KEY"]
        self.cancelled = False
        self._variables = variables
        self._parameters = variables.get("ROTA_PARAMETERS", "")
        self._checkpoint = call["checkpoint"]
        self._results_text = call["results"]
        self._results: dict[str, Json] = {}
        self._percent = -1
        self._worker = worker
        self._state: Any = None

    @property
    def fire_time(self) -> datetime.datetime:
        """The instant at which the execution was due, in UTC."""
        return self._instant("ROTA_FIRE_TIME")

    @property
    def interval(self) -> tuple[datetime.datetime, datetime.datetime]:
        """The interval that the execution works on: from the fire time before its own, in UTC.

        Raises:
            LookupError: It has none: it was triggered without a fire time of its job's schedules.
        """
        if "ROTA_INTERVAL_START" not in self._variables:
            raise LookupError(
                f"execution {self.execution_id} has no interval: give its trigger a fire time of "
                "the job's schedule (rota trigger --fire-time)"
            )
        return self._instant("ROTA_INTERVAL_START"), self._instant("ROTA_INTERVAL_END")

    def _instant(self, variable: str) -> datetime.datetime:
        import datetime

        text = self._variables[variable].replace("Z", "+00:00")  # The form that 3.9 and 3.10 parse.
        return datetime.datetime.fromisoformat(text)

    @property
    def parameters(self) -> Json:
        """The parameters of the trigger, else of the job, else of the task; None without any."""
        return json.loads(self._parameters) if self._parameters else None

    @property
    def last_checkpoint(self) -> Json:
        """The last checkpoint that an attempt of this task has saved; None if there is none."""
        return json.loads(self._checkpoint) if self._checkpoint else None

    @property
    def results(self) -> dict[str, Json]:
        """The results of the needed tasks, by name; None is the result of a task without one."""
        if self._results_text and not self._results:
            self._results = json.loads(self._results_text)
        return self._results

    @property
    def state(self) -> Any:  # Any: its class is in a package that this interpreter may lack.
        """The state of the job (`rota.client.JobState`), for a task with ``identity``.

        Raises:
            ImportError: The interpreter has no package rota.
        """
        if self._state is None:
            self._state = importlib.import_module("rota.client").JobState()
        return self._state

    def progress(self, percent: float) -> None:
        """Report the progress in percent, from 0 to 100; may be called at every step of a loop.

        Raises:
            ValueError: *percent* is out of range.
        """
        if not 0 <= percent <= 100:
            raise ValueError(f"{percent} percent is out of range; give a value from 0 to 100")
        whole = int(percent)
        if whole != self._percent:
            self._percent = whole
            self._worker.send({"type": "told", "percent": whole}, of=self)

    def checkpoint(self, value: Json) -> None:
        """Save *value* for the next attempt of this task, replacing the last checkpoint.

        Raises:
            TypeError: JSON has no representation of *value*.
            ValueError: JSON has no representation of *value*, or it is longer than 64 KiB.
        """
        text = _ENCODE(value)
        size = len(text.encode())
        if size > CHECKPOINT_BYTES_MAX:
            raise ValueError(
                f"the checkpoint has {size} bytes, and at most {CHECKPOINT_BYTES_MAX} are kept; "
                "store the data elsewhere, and save its location instead"
            )
        self._worker.send({"type": "told", "checkpoint": text}, of=self)


class Target(NamedTuple):
    """A function to call.

    Attributes:
        function: The function.
        names: The names of its parameters that can be passed by name.
        takes_any_name: True if it has a parameter ``**kwargs``, or if its signature is not known.
        results: For each parameter with the default ``rota.client.result(task)``, the task.
    """

    function: Callable[..., Any]
    names: frozenset[str]
    takes_any_name: bool
    results: dict[str, str]


class Used(NamedTuple):
    """The resources that this process has used until the end of its last call.

    Attributes:
        cpu_of_children: The processor time of reaped children, in seconds.
        peak: The highest resident memory, in bytes.
        resident: The resident memory, in bytes.
    """

    cpu_of_children: float
    peak: int
    resident: int


class NotCallable(Exception):
    """There is no function to call; the text is the reason."""


class WrongArguments(Exception):
    """The function does not take the arguments; the text is the reason, the cause the error."""


class Launch(NamedTuple):
    """The settings and the environment that this program was started with.

    Attributes:
        settings: The fields of `rota.executor.python.worker_protocol.Settings`.
        environment: The environment of the process at its start.
    """

    settings: dict[str, Json]
    environment: dict[str, str]


class ProcessState:
    """The state of this process that a call may change, as it was before the first call.

    Args:
        status: The content of ``/proc/self/status``; see proc(5).
    """

    def __init__(self, status: bytes) -> None:
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        self._streams = [os.dup(number) for number in range(3)]
        self._lasting = _lasting_state()
        self.accept(status)

    def accept(self, status: bytes) -> None:
        """Keep what a module has set at its import, which later calls may depend on."""
        self._recursion_limit = sys.getrecursionlimit()
        self._signals = _signals_in(status)
        self._handlers = {each: signal.getsignal(each) for each in signal.valid_signals()}
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def restore(self, status: bytes) -> bool:
        """Restore the state; return False if a part of it cannot be restored.

        Raises:
            OSError, ValueError: A part of it cannot be restored.
        """
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
        if "faulthandler" in sys.modules:
            sys.modules["faulthandler"].cancel_dump_traceback_later()
        os.umask(self._umask)
        sys.setrecursionlimit(self._recursion_limit)
        for number, stream in enumerate(self._streams):
            os.dup2(stream, number)
        return self._restore_signals(status) and _lasting_state() == self._lasting

    def _restore_signals(self, status: bytes) -> bool:
        # The kernel's masks are at hand, and to look at each handler takes 0.15 ms.
        has_changed = not self._signals or _signals_in(status) != self._signals
        for number in self._handlers if has_changed else (signal.SIGINT, signal.SIGTERM):
            handler = self._handlers[number]
            if signal.getsignal(number) != handler:
                if handler is None:  # Not that of a Python program.
                    return False
                signal.signal(number, handler)
        if has_changed:
            signal.set_wakeup_fd(-1)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        return True


def _signals_in(status: bytes) -> bytes:
    """Return which signals are blocked, ignored and caught."""
    return status.partition(b"SigBlk:")[2].partition(b"CapInh:")[0]


def _lasting_state() -> tuple[object, ...]:
    """Return what a process cannot always take back: limits, priority, processors, user, root."""
    return (
        [resource.getrlimit(each) for each in _LIMITS],
        os.getpriority(os.PRIO_PROCESS, 0),
        os.sched_getaffinity(0),
        os.getresuid(),
        os.getresgid(),
        os.stat("/").st_ino,
    )


_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


class Worker:
    """Serves one executor for the life of this process."""

    def __init__(self, control: socket.socket, launch: Launch) -> None:
        self._control = control
        self._frames = control.makefile("rb")
        self._lock = threading.Lock()  # Protects the socket and `_context`.
        self._launch = launch
        self._folder: str = launch.settings["folder"]
        self._is_private: bool = launch.settings["is_private"]
        self._code = LoadedCode()
        self._streams = sys.stdout, sys.stderr
        self._libc = _become_subreaper()
        self._memory = os.open("/proc/self/status", os.O_RDONLY)
        self._process = os.getpid()
        self._used = self._measure()
        self._variables: dict[str, str] = {}
        self._targets: dict[str, Target] = {}
        self._coroutines = Coroutines()
        # For the handler of TERM.
        self._context: Context | None = None
        self._is_interruptible = False
        self._is_terminated = False

    def serve(self) -> None:
        """Answer calls until the executor closes the socket."""
        signal.signal(signal.SIGTERM, self._terminate)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # See `start_again`.
        self._state = ProcessState(self._status())
        settings = self._launch.settings
        if settings["pending"] < 0:
            self.send({"type": "ready"})
        else:
            self._serve_call(_content_of(settings["pending"]))
        while True:
            head = self._frames.read(4)
            if len(head) < 4:
                return
            call = self._frames.read(struct.unpack(">I", head)[0])
            if settings["reloads_code"] and self._code.has_changed():
                start_again(
                    call, self._control, self._launch, is_terminated=lambda: self._is_terminated
                )
            self._serve_call(call)

    def _serve_call(self, call: bytes) -> None:
        began = time.time()
        ended = self._answer(json.loads(call))
        self._code.record(began, time.time())
        self.send(ended)

    def send(self, message: dict[str, Json], *, of: Context | None = None) -> None:
        """Send *message*, provided that *of* is the context of the current call, if any.

        Raises:
            RuntimeError: The attempt of *of* has ended, or this is a child of the worker's process.
        """
        text = _ENCODE(message).encode()
        with self._lock:
            if of is not self._context:
                raise RuntimeError("ctx cannot be used any more: its attempt has ended")
            if os.getpid() != self._process:
                raise RuntimeError("ctx can be used in the function's process, not in its children")
            self._control.sendall(struct.pack(">I", len(text)) + text)

    # -- one call ----------------------------------------------------------------------------------

    def _answer(self, call: dict[str, Json]) -> dict[str, Json]:
        """Call a function, and return the message about its end."""
        cpu_before, before = _cpu_of_self(), self._used
        self._set_variables(call["variables"])
        context = self._context = Context(self, call)
        context.cancelled = self._is_terminated  # TERM may arrive before the call that it ends.
        try:
            ended = self._run(call["function"], call["arguments"], context)
        except KeyboardInterrupt:  # TERM came between two lines of `_run`.
            ended = {"is_interrupted": True}
        self._is_interruptible = False
        if os.getpid() != self._process:  # The function has forked, and this is the child.
            os._exit(0)
        with self._lock:
            self._context = None
        is_clean = self._clean_up()
        after = self._used = self._measure()
        cpu = _cpu_of_self() - cpu_before + after.cpu_of_children - before.cpu_of_children
        grown = after.peak > before.peak
        return {
            **ended,
            "type": "ended",
            "cpu": round(cpu * 1e6),
            # The kernel's peak is that of the whole process; it is this call's peak if it grew.
            "memory_peak": after.peak if grown else max(before.resident, after.resident),
            "resident": after.resident,
            "is_spent": not is_clean or self._is_terminated or ended.get("exit_code") == -1,
        }

    def _run(self, name: str, arguments: str, context: Context) -> dict[str, Json]:
        """Call the function, and return the fields of the message about its end."""
        if context.cancelled:
            return {"is_interrupted": True}
        try:
            self._is_interruptible = True
            self._enter_folder()
            target = self._target(name)
            args, kwargs = _arguments_of(arguments, target, context)
            if not arguments:
                _warn_of_misspelt(name, target, context)
            if "ctx" in target.names:
                self._is_interruptible = False
            value = _called(target, args, kwargs, context)
            self._is_interruptible = False
            if inspect.iscoroutine(value):
                value = self._coroutines.run(value, context)
        except BaseException as error:
            self._is_interruptible = False
            failed = _failed(error, context)
            if raised := failed.get("raised"):
                with suppress(Exception):  # The function may have replaced or closed the stream.
                    sys.stderr.write(raised[3])
            return failed
        return _returned(value)

    def _set_variables(self, variables: dict[str, str]) -> None:
        for name in self._variables.keys() - variables.keys():
            os.environ.pop(name, None)
        os.environ.update(variables)
        self._variables = variables

    def _enter_folder(self) -> None:
        try:
            os.chdir(self._folder)
        except OSError as error:
            raise NotCallable(
                f"cannot enter the working directory {self._folder!r}: {error.strerror}"
            ) from None

    def _target(self, name: str) -> Target:
        target = self._targets.get(name)
        if target is None:
            target = self._targets[name] = _find(name, self._launch.settings, self._folder)
            self._state.accept(self._status())
        return target

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        """Request the end of the current call, or of the next one (the handler of TERM)."""
        del number, frame
        self._is_terminated = True
        if self._context is not None:
            self._context.cancelled = True
        self._coroutines.cancel()
        if self._is_interruptible:
            self._is_interruptible = False
            raise KeyboardInterrupt

    # -- between two calls -------------------------------------------------------------------------

    def _clean_up(self) -> bool:
        """End processes that the call left running; return True if the worker can be used again."""
        try:
            has_children = _has_children()
            if has_children:
                _end_children()
            is_restored = self._state.restore(self._status())
            sys.stdout, sys.stderr = self._streams
            sys.stdout.flush()
            sys.stderr.flush()
            if self._libc is not None:
                self._libc.fflush(None)  # The output of C code.
            if self._is_private:
                _empty(self._folder)
        except (OSError, ValueError):  # The folder cannot be removed, or a stream is closed.
            return False
        return is_restored and not has_children and not _has_threads()

    def _status(self) -> bytes:
        return os.pread(self._memory, 4096, 0)

    def _measure(self) -> Used:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        status = self._status()
        return Used(
            cpu_of_children=children.ru_utime + children.ru_stime,
            # Not ru_maxrss: it starts with the value of the parent process.
            peak=_kilobytes(status, b"VmHWM:"),
            resident=_kilobytes(status, b"VmRSS:"),
        )


def _kilobytes(status: bytes, name: bytes) -> int:
    """Return an amount of memory from ``/proc/<pid>/status``, in bytes."""
    return int(status.partition(name)[2].split(None, 1)[0]) * 1024


def start_again(
    call: bytes, control: socket.socket, launch: Launch, *, is_terminated: Callable[[], bool]
) -> None:
    """Restart this program in the same process, beginning with *call*.

    The executor is not involved: process, socket and pipe stay the same. A TERM is held back until
    the new program can handle it. The present program continues if TERM has come before, or if its
    interpreter cannot be started any more.

    Args:
        call: The frame of the call, without its length.
        control: The socket of this worker.
        launch: The settings and the environment of the new program.
        is_terminated: Returns True if TERM has come.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    if not is_terminated():
        with suppress(OSError):
            _execute(call, control, launch)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _execute(call: bytes, control: socket.socket, launch: Launch) -> None:
    pending = os.memfd_create("rota-call")
    try:
        os.write(pending, call)
        os.set_inheritable(pending, True)
        control.set_inheritable(True)
        settings = json.dumps({**launch.settings, "pending": pending})
        os.execve(sys.executable, [sys.executable, _FILE, settings], launch.environment)
    finally:  # The new program was not started.
        control.set_inheritable(False)
        os.close(pending)


class LoadedCode:
    """The files of loaded modules outside the standard library, to detect their changes."""

    def __init__(self) -> None:
        self._stamps: dict[str, Stamp] = {}
        self._module_count = 0
        self._checked_at = 0.0

    def record(self, began: float, ended: float) -> None:
        """Record the files of modules that a call has imported.

        A file that was written during the call may have been written after its import, so it
        counts as changed, which costs at most one restart of the program.

        Args:
            began: The time at which the call began, in seconds since 1970.
            ended: The time at which it ended; later times of files are from another clock, and are
                ignored.
        """
        if len(sys.modules) == self._module_count:
            return
        self._module_count = len(sys.modules)
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__dict__", {}).get("__file__")
            if isinstance(file, str) and name != "__main__" and not _is_standard(file):
                self._record(file, began, ended)

    def _record(self, file: str, began: float, ended: float) -> None:
        if file in self._stamps or len(self._stamps) >= FILES_MAX:
            return
        stamp = _stamp(file)
        if stamp is not None:
            is_uncertain = began - CLOCK_TICK_S <= stamp[0] / 1e9 <= ended
            self._stamps[file] = UNCERTAIN if is_uncertain else stamp

    def has_changed(self) -> bool:
        """Return True if a file has changed; the files are checked at most every `CHECK_S`.

        A missing file counts as unchanged: it is probably being replaced.
        """
        now = time.monotonic()
        if now - self._checked_at < CHECK_S:
            return False
        self._checked_at = now
        return any(_stamp(file) not in (None, before) for file, before in self._stamps.items())


def _stamp(file: str) -> Stamp | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _is_standard(file: str) -> bool:
    return file.startswith(_STANDARD) and "-packages" not in file[len(_STANDARD) :]


def _content_of(fd: int) -> bytes:
    with open(fd, "rb") as file:
        file.seek(0)
        return file.read()


class Coroutines:
    """Coroutines on one event loop, which the worker keeps until its end."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    def run(self, coroutine: Any, context: Context) -> Any:  # Any: the user's.
        """Return the result of *coroutine*, or raise its exception.

        As with `asyncio.run`, all asyncio tasks and threads that it leaves behind are ended.
        """
        import asyncio

        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        loop = self._loop
        task = self._task = loop.create_task(coroutine)
        if context.cancelled:  # TERM has come before there was a task to cancel.
            task.cancel()
        try:
            # The task itself is not run here: its exceptions would be raised inside the loop.
            loop.run_until_complete(asyncio.wait([task]))
        finally:
            self._task = None
            self._end_leftovers(loop)
        return task.result()

    def cancel(self) -> None:
        """Cancel the running coroutine; called by a signal handler."""
        if self._loop is not None and self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)

    def _end_leftovers(self, loop: asyncio.AbstractEventLoop) -> None:
        import asyncio

        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        # Threads of asyncio.to_thread end only with the loop's default executor, which cannot be
        # used again, so the loop is closed, too.
        if any(thread.name.startswith("asyncio_") for thread in threading.enumerate()):
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()


# -- finding the function and its arguments --------------------------------------------------------


def _find(name: str, settings: dict[str, Json], folder: str) -> Target:
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise NotCallable(f"{name!r} is not the name of a function; write module:function")
    try:
        found: Any = importlib.import_module(module_name)  # Any: the user's.
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        remedy = _remedy_of_import(error, module_name, settings, folder)
        raise NotCallable(f"cannot import {module_name!r}: {_summary(error)}{remedy}") from error
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise NotCallable(f"module {module_name!r} has no {path!r}") from None
    # A task of `rota.App` has a function that converts arguments and result by the annotations.
    found = getattr(found, "__rota_function__", found)
    if not callable(found):
        raise NotCallable(f"{name!r} is not a function; its type is {type(found).__name__!r}")
    return _target_of(found)


def _remedy_of_import(
    error: BaseException, module_name: str, settings: dict[str, Json], folder: str
) -> str:
    """Return where a missing module was searched for and what to set; empty for other errors."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    if error.name != module_name and not module_name.startswith(f"{error.name}."):
        return (
            f"; {module_name!r} imports it: install it for the interpreter {sys.executable}, or "
            "set another one in python.interpreter"
        )
    folders = ", ".join(map(repr, settings["path"][:_NAMES_SHOWN]))
    searched = f"python.path ({folders})" if folders else "no folder, since python.path is not set"
    remedy = "set python.path to the folder of the module"
    if not settings["is_private"]:
        remedy += f"; the working directory {folder!r} is not searched"
        top = os.path.join(folder, error.name.partition(".")[0])
        if os.path.isfile(f"{top}.py") or os.path.isdir(top):
            remedy += f", but has it: set python.path to [{folder!r}]"
    return f"; searched: {searched}, and the packages of {sys.executable}; {remedy}"


def _warn_of_misspelt(name: str, target: Target, context: Context) -> None:
    """Write a line for each parameter that is not passed and looks like one of the function.

    Other parameters may be meant for other tasks of the execution, which take others of them.
    """
    for given, meant in _misspelt(target, context).items():
        sys.stderr.write(
            f"rota: {name} has no parameter {given!r} (did you mean {meant!r}?), so that it is "
            f"not passed; {_parameters_of(target)}\n"
        )


def _misspelt(target: Target, context: Context) -> dict[str, str]:
    """Return parameters that *target* does not take, with similar ones that have no value."""
    given: dict[str, Json] = context.parameters if _is_object(context.parameters) else {}
    unknown = [] if target.takes_any_name else sorted(given.keys() - target.names)
    free = target.names - given.keys() - {"ctx"}
    if not unknown or not free:
        return {}
    from difflib import get_close_matches  # Loaded for mistakes only.

    close = {each: get_close_matches(each, free, n=1) for each in unknown[:_NAMES_SHOWN]}
    return {each: found[0] for each, found in close.items() if found}


def _wrong_arguments(error: TypeError, target: Target, context: Context) -> str:
    """Return the reason of a call that failed because of its arguments."""
    misspelt = _misspelt(target, context)
    hints = "".join(
        f"; the parameter {given!r} is not passed (did you mean {meant!r}?)"
        for given, meant in misspelt.items()
    )
    return f"{_summary(error)}{hints}; {_parameters_of(target)}"


def _parameters_of(target: Target) -> str:
    names = sorted(target.names - {"ctx"})
    shown = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
    more = " and any other" if target.takes_any_name else ""
    return f"the function takes {shown or 'no parameters by name'}{more}"


def _target_of(function: Callable[..., Any]) -> Target:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # Written in C, without a signature.
        return Target(function, frozenset(), takes_any_name=True, results={})
    named = [each for each in parameters if each.kind in _NAMED]
    tasks = {each.name: getattr(each.default, "__rota_result__", None) for each in named}
    return Target(
        function,
        frozenset(each.name for each in named),
        takes_any_name=any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters),
        results={name: task for name, task in tasks.items() if isinstance(task, str)},
    )


def _arguments_of(
    text: str, target: Target, context: Context
) -> tuple[list[Json], dict[str, Json]]:
    """Return the arguments in *text*; if it is empty, the execution's parameters by name.

    In the second case, only parameters that *target* takes are passed. In both cases, a parameter
    with a task's result as default gets that result, unless it has a value already.
    """
    if text:
        args, kwargs = _given_arguments(text, context)
    else:
        args, kwargs = [], _taken_parameters(target, context)
    if target.results:
        bound = inspect.signature(target.function).bind_partial(*args, **kwargs).arguments
        for name, task in target.results.items():
            if name not in bound:
                kwargs[name] = _result_of(task, context, f"the parameter {name!r}")
    return args, kwargs


def _given_arguments(text: str, context: Context) -> tuple[list[Json], dict[str, Json]]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotCallable(f"the arguments are not JSON: {error}") from None
    try:
        args, kwargs = [*given.get("args", [])], {**given.get("kwargs", {})}
    except (AttributeError, TypeError):
        raise NotCallable('the arguments are not {"args": [...], "kwargs": {...}}') from None
    return (
        [_argument(value, context) for value in args],
        {name: _argument(value, context) for name, value in kwargs.items()},
    )


def _argument(value: Json, context: Context) -> Json:
    """Return *value*, or the result of a task for ``{"result": "task"}``."""
    if _is_object(value) and value.keys() == {"result"} and isinstance(value["result"], str):
        return _result_of(value["result"], context, "an argument")
    return value


def _is_object(value: Json) -> bool:
    return isinstance(value, dict)


def _taken_parameters(target: Target, context: Context) -> dict[str, Json]:
    parameters: dict[str, Json] = context.parameters if _is_object(context.parameters) else {}
    if target.takes_any_name:
        return {**parameters}
    return {name: value for name, value in parameters.items() if name in target.names}


def _result_of(task: str, context: Context, place: str) -> Json:
    if task not in context.results:
        needed = ", ".join(sorted(context.results)[:_NAMES_SHOWN]) or "none"
        raise NotCallable(
            f"{place} is the result of the task {task!r}, which is not among the needs of "
            f"{context.task!r} ({needed}); add it to them"
        )
    return context.results[task]


# -- the call --------------------------------------------------------------------------------------


def call_here(
    name: str, call: dict[str, Json], receiver: Receiver, *, run: Callable[[Any], Any]
) -> dict[str, Json]:
    """Call a function in this process, and return the fields of the message about its end.

    This is for tests of functions: folder, streams and signals of the process stay as they are, and
    interrupts of the program are not caught.

    Args:
        name: The function, ``module:function``.
        call: The message with which an executor calls it.
        receiver: Receives what the function reports by its context.
        run: Returns the result of a coroutine, or raises its exception.
    """
    context = Context(receiver, call)
    try:
        target = _find(name, {"path": [], "is_private": True}, "")
        args, kwargs = _arguments_of(call["arguments"], target, context)
        value = _called(target, args, kwargs, context)
        if inspect.iscoroutine(value):
            value = run(value)
    except (Exception, SystemExit) as error:
        return _failed(error, context)
    return _returned(value)


def _called(
    target: Target, args: list[Json], kwargs: dict[str, Json], context: Context
) -> Any:  # Any: the user's.
    if "ctx" in target.names:
        kwargs["ctx"] = context
    try:
        return target.function(*args, **kwargs)
    except TypeError as error:
        if _users_part(error.__traceback__) is None:  # The call itself has failed.
            raise WrongArguments(_wrong_arguments(error, target, context)) from error
        raise


# -- how a call has ended --------------------------------------------------------------------------


def _returned(value: Any) -> dict[str, Json]:
    if value is None:
        return {}
    try:
        text = _ENCODE(value)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        return {"exit_code": 1, "reason": f"its result cannot be written as JSON: {_text(error)}"}
    if size > RESULT_BYTES_MAX:
        return {
            "exit_code": 1,
            "reason": f"its result has {size} bytes as JSON, and at most {RESULT_BYTES_MAX} are "
            "kept; store the data elsewhere, and return its location instead",
        }
    return {"result": text}


def _failed(error: BaseException, context: Context) -> dict[str, Json]:
    if isinstance(error, NotCallable):
        cause = error.__cause__
        return {"exit_code": -1, "reason": _text(error), "raised": cause and _raised(cause)}
    if isinstance(error, WrongArguments):
        cause = error.__cause__
        return {"exit_code": 1, "reason": _text(error), "raised": cause and _raised(cause)}
    if isinstance(error, SystemExit):
        return _exited(error.code)
    if context.cancelled and type(error).__name__ in ("KeyboardInterrupt", "CancelledError"):
        return {"is_interrupted": True}
    return {"exit_code": 1, "reason": _summary(error), "raised": _raised(error)}


def _exited(code: object) -> dict[str, Json]:
    """Return the end of the call as the interpreter would treat ``sys.exit(code)``."""
    if code is None:
        return {}
    if not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
        code = 1
    return {"exit_code": code & 0xFF, "reason": f"exited with code {code & 0xFF}" if code else ""}


def _raised(error: BaseException) -> list[Json]:
    """Return type, bases, message and traceback, the fields of `rota.core.model.attempt.Raised`."""
    kinds = [_name_of(kind) for kind in type(error).__mro__ if kind is not object]
    lines = traceback.format_exception(type(error), error, _users_part(error.__traceback__))
    return [
        kinds[0],
        kinds[1:],
        _cut(_text(error), MESSAGE_BYTES_MAX),
        _cut("".join(lines), -TRACEBACK_BYTES_MAX),
    ]


def _users_part(at: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the frames of this program."""
    while at is not None and at.tb_frame.f_code.co_filename == _FILE:
        at = at.tb_next
    return at


def _name_of(kind: type) -> str:
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


def _summary(error: BaseException) -> str:
    """Return the line that a traceback ends with."""
    name, text = _name_of(type(error)), _text(error)
    first = text.partition("\n")[0][:REASON_CHARACTERS_MAX]
    return f"{name}: {first}" if first else name


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # A class of the user can raise anything here.
        text = "<the text of the exception cannot be read>"
    return text.encode("utf-8", "backslashreplace").decode()


def _cut(text: str, size: int) -> str:
    """Return the first *size* bytes of *text*; if *size* is negative, the last ones."""
    content = text.encode("utf-8", "backslashreplace")
    part = content[:size] if size > 0 else content[size:]
    return part.decode("utf-8", "ignore")


# -- what a call leaves behind ---------------------------------------------------------------------


def _cpu_of_self() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _become_subreaper() -> Any:
    """Become the parent of orphaned descendants; return the C library, or None if there is none.

    So processes that a function leaves in the background are found, including daemons.
    """
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):  # In this case, daemons are not found here.
        return None
    return libc


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _end_children() -> None:
    """Kill all descendants: an orphan becomes a child here, and is killed in the next round."""
    for _ in range(_KILL_ROUNDS):
        children = _children()
        if not children:
            return
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ChildProcessError, PermissionError):  # Already reaped, or another user's.
                continue


def _children() -> list[int]:
    own = os.getpid()
    children: list[int] = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == own:
            children.append(int(name))
    return children


def _has_threads() -> bool:
    """Return True if there is a thread for whose end the interpreter would wait at its exit."""
    main = threading.main_thread()
    return threading.active_count() > 1 and any(
        not thread.daemon for thread in threading.enumerate() if thread is not main
    )


def _empty(folder: str) -> None:
    try:
        with os.scandir(folder) as entries:
            if next(entries, None) is None:
                return
    except FileNotFoundError:  # Removed by the function itself.
        pass
    else:
        import shutil

        shutil.rmtree(folder)
    os.mkdir(folder, 0o700)


# -- the program -----------------------------------------------------------------------------------


def main() -> None:
    """Serve the executor at the other end of the socket."""
    settings = json.loads(sys.argv[1])
    launch = Launch(settings, dict(os.environ))
    control = socket.socket(fileno=settings["control"])
    control.set_inheritable(False)
    own_folder = os.path.dirname(os.path.realpath(__file__))
    others = [each for each in sys.path if os.path.realpath(each) != own_folder]
    sys.path[:] = settings["path"] + others
    sys.argv[1:] = []
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, io.TextIOWrapper), stream
        stream.reconfigure(line_buffering=True)
    Worker(control, launch).serve()


_FILE = main.__code__.co_filename
_ENCODE = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode

if __name__ == "__main__":
    main()
