"""Functions that do what people do."""

import asyncio
import ctypes
import fcntl
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rota.client import result

Json = Any  # Any, as JSON is.
CALLS: list[int] = []
NOT_A_FUNCTION = 3


class OutOfStock(LookupError):
    """A class of the user's own."""


class Shop:
    """Functions are found below classes as well."""

    @staticmethod
    def name() -> str:
        """Return it."""
        return "shop"


def say(text: str) -> None:
    """Write a line; it is flushed by the worker."""
    sys.stdout.write(f"{text}\n")


def greet(name: str, day: str = "today") -> str:
    """Return both parameters."""
    return f"{name} {day}"


def echo(*args: Json, **kwargs: Json) -> Json:
    """Return the arguments."""
    return [list(args), kwargs]


def value(text: str) -> Json:
    """Return what the Python expression *text* is."""
    return eval(text)


def context(ctx: Any) -> Json:  # Any: rota need not be installed where this runs.
    """Return the fields of ctx."""
    return {
        "execution_id": ctx.execution_id,
        "task": ctx.task,
        "attempt": ctx.attempt,
        "job": ctx.job,
        "namespace": ctx.namespace,
        "token": ctx.token,
        "idempotency_key": ctx.idempotency_key,
        "fire_time": ctx.fire_time.isoformat(),
        "interval": [each.isoformat() for each in ctx.interval],
        "parameters": ctx.parameters,
        "last_checkpoint": ctx.last_checkpoint,
        "cancelled": ctx.cancelled,
    }


def needed(ctx: Any) -> Json:
    """Return the results of the tasks that its own needs."""
    return ctx.results


def totals(day: Json = None, *, rows: Json = result("extract"), factor: Json = 1) -> Json:
    """Return the arguments; *rows* is the result of a task."""
    return {"day": day, "rows": rows, "factor": factor}


def length(rows: Json = result("extract")) -> Json:
    """Return the number of rows."""
    return len(rows)


def parameters(given: Json, ctx: Any) -> Json:
    """Return its argument, and the parameters."""
    return [given, ctx.parameters]


def environ() -> Json:
    """Return the environment."""
    return dict(os.environ)


def pid() -> int:
    """Return that of the worker."""
    return os.getpid()


def call_count() -> int:
    """Return how often it was called in this worker."""
    CALLS.append(0)
    return len(CALLS)


def fail(text: str) -> None:
    """Raise an exception of a class of its own."""
    raise OutOfStock(text)


def fail_below(text: str) -> None:
    """Raise an exception as the consequence of another."""
    try:
        fail(text)
    except OutOfStock as error:
        raise RuntimeError("cannot sell") from error


def leave(code: Json) -> None:
    """End like a program."""
    sys.exit(code)


def die(code: int) -> None:
    """End the worker's process."""
    os._exit(code)


def die_of(number: int) -> None:
    """End the worker's process by a signal."""
    os.kill(os.getpid(), number)


def write(text: str, count: int = 1) -> None:
    """Write *text* to both streams."""
    for _ in range(count):
        sys.stdout.write(text)
    sys.stderr.write(text)


def write_at_once(count: int) -> None:
    """Write so many bytes into a pipe that holds them all."""
    fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)
    os.write(1, b"x" * count)


def write_from_c(text: str) -> None:
    """Write *text* as a library written in C does, which keeps it in a buffer of its own."""
    ctypes.CDLL(None).printf(text.encode())


def write_from_child(text: str) -> None:
    """Let a program write *text*."""
    subprocess.run(["echo", "-n", text], check=True)


def close_stdout() -> None:
    """Spoil the worker."""
    sys.stdout.close()


def files() -> Json:
    """Return what is in the folder, and leave something there."""
    found = sorted(os.listdir())
    Path("left").mkdir()
    Path("left/file").write_text("left")
    return [os.getcwd(), found]


def remove_folder() -> None:
    """Remove the folder that it is in."""
    os.rmdir(os.getcwd())


def progress(*percents: float, ctx: Any) -> None:
    """Report progress repeatedly."""
    for percent in percents:
        ctx.progress(percent)


def save(*values: Json, ctx: Any) -> None:
    """Save one thing after the other."""
    for each in values:
        ctx.checkpoint(each)


def save_bytes(count: int, ctx: Any) -> None:
    """Save a text of so many bytes as JSON."""
    ctx.checkpoint("x" * (count - 2))


def save_and_die(saved: Json, ctx: Any) -> None:
    """Save, and end the process."""
    ctx.checkpoint(saved)
    os._exit(1)


def sleep() -> None:
    """Sleep for a minute, and say how that ended."""
    try:
        say("up")
        time.sleep(60)
    finally:
        say("cleaned up")


def poll(ctx: Any) -> str:
    """Work until the attempt is cancelled."""
    say("up")
    while not ctx.cancelled:
        time.sleep(0.002)
    say("cancelled")
    return "done"


def ignore() -> None:
    """Continue despite every exception."""
    while True:
        try:
            say("up")
            time.sleep(60)
        except BaseException as error:
            say(f"got {type(error).__name__}")


def replace_handler() -> None:
    """Set a handler of its own, as servers do."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def fail_when_stopped() -> None:
    """Fail in its clean-up."""
    try:
        say("up")
        time.sleep(60)
    finally:
        raise OutOfStock("while cleaning up")


async def async_echo(given: Json) -> Json:
    """Return what it was given, a little later."""
    await asyncio.sleep(0)
    return given


async def async_fail() -> None:
    """Raise from within."""
    await asyncio.sleep(0)
    fail("async")


async def async_sleep(ctx: Any) -> None:
    """Sleep for a minute, and say how that ended."""
    try:
        say("up")
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        say(f"cancelled {ctx.cancelled}")
        raise


async def async_leaves_task() -> None:
    """Leave an asyncio task behind."""

    async def background() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            say("background cancelled")
            raise

    task = asyncio.get_running_loop().create_task(background())
    await asyncio.sleep(0)
    assert not task.done()


async def async_thread() -> int:
    """Use a thread, and return which process this is."""
    return await asyncio.to_thread(os.getpid)


async def async_loop() -> int:
    """Return which loop this is."""
    return id(asyncio.get_running_loop())


async def async_leave() -> None:
    """End like a program."""
    sys.exit(4)


def leave_child(*argv: str, own_session: bool = False) -> Json:
    """Leave a process behind; return its number and the worker's."""
    child = subprocess.Popen(argv, start_new_session=own_session)
    child.returncode = 0  # It is not to be mentioned when it is collected.
    return [child.pid, os.getpid()]


def daemon() -> int:
    """Leave a process behind as daemons do it; return its number."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(writable, str(os.getpid()).encode())
            time.sleep(60)
        os._exit(0)
    os.waitpid(child, 0)
    return int(os.read(readable, 100))


def daemon_and(then: str, file: str) -> None:
    """Leave a daemon behind, write its number to *file*, and then sleep or die."""
    number = daemon()
    Path(file).write_text(str(number))
    while then == "ignore":
        try:
            say("up")
            time.sleep(60)
        except KeyboardInterrupt:
            continue
    os._exit(1)


def fork_and_return() -> str:
    """Return twice, from two processes."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return "parent" if child else "child"


def leave_thread(*, is_daemon: bool) -> int:
    """Leave a thread behind; return the worker's number."""
    threading.Thread(target=time.sleep, args=(60,), daemon=is_daemon).start()
    return os.getpid()


def leave_reporting_thread(ctx: Any) -> None:
    """Leave a thread behind that continues to report progress."""

    def report() -> None:
        percent = 0
        while True:
            percent = (percent + 1) % 100
            ctx.progress(percent)

    threading.Thread(target=report, daemon=True).start()


def spin(milliseconds: int) -> None:
    """Use a processor."""
    until = time.process_time() + milliseconds / 1e3
    while time.process_time() < until:
        pass


def spin_in_child(milliseconds: int) -> None:
    """Use a processor in another process."""
    code = f"import time\nwhile time.process_time() < {milliseconds / 1e3}: pass"
    subprocess.run([sys.executable, "-S", "-c", code], check=True)


def allocate(mebibytes: int) -> int:
    """Use memory, and return the worker's number."""
    block = bytearray(mebibytes << 20)
    for page in range(0, len(block), 4096):
        block[page] = 1
    return os.getpid()


def leak(mebibytes: int) -> int:
    """Keep memory, and return the worker's number."""
    LEAKED.append(b"x" * (mebibytes << 20))
    return os.getpid()


LEAKED: list[bytes] = []


def meddle(text: str) -> None:
    """Write to the worker's own socket, which is the one there is."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor < 3:
            continue
        try:
            is_socket = stat.S_ISSOCK(os.fstat(descriptor).st_mode)
        except OSError:
            continue
        if is_socket:
            os.write(descriptor, text.encode())
    time.sleep(60)


def version() -> Json:
    """Return what Python this is."""
    return json.loads(json.dumps(sys.version_info[:2]))


def wait_for(file: str) -> int:
    """Wait until there is *file*; return the worker's number."""
    while not Path(file).exists():
        time.sleep(0.002)
    return os.getpid()


def append(text: str, file: str) -> None:
    """Append *text* to *file*."""
    with open(file, "a", encoding="utf-8") as opened:
        opened.write(text)


def change_process(what: str) -> int:
    """Change the state of the process, and return its number."""
    changes[what]()
    return os.getpid()


def alarm() -> None:
    """Let SIGALRM come when the next call runs."""
    signal.setitimer(signal.ITIMER_REAL, 0.3)


def close_streams() -> None:
    """Close the streams, and let other files have their numbers."""
    os.close(1)
    os.close(2)
    os.open(os.devnull, os.O_WRONLY)


def block_signals() -> None:
    """Block the signal that ends an attempt."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})


changes: dict[str, Callable[[], object]] = {
    "alarm": alarm,
    "streams": close_streams,
    "umask": lambda: os.umask(0),
    "recursion": lambda: sys.setrecursionlimit(222),
    "handler": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    "ignored": lambda: signal.signal(signal.SIGUSR2, signal.SIG_IGN),
    "mask": block_signals,
    "nice": lambda: os.nice(5),
    "limit": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
    "processors": lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    "user": lambda: os.seteuid(34),
    "descriptors": lambda: os.closerange(3, 256),
}


def process_state() -> Json:
    """Return the state of the process, after a time in which an alarm could come."""
    time.sleep(0.5)
    sys.stdout.write("written\n")
    umask = os.umask(0o077)
    os.umask(umask)
    return [
        umask,
        sys.getrecursionlimit(),
        [str(signal.getsignal(each)) for each in (signal.SIGINT, signal.SIGALRM, signal.SIGUSR2)],
        sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        os.getpriority(os.PRIO_PROCESS, 0),
        resource.getrlimit(resource.RLIMIT_NOFILE),
        sorted(os.sched_getaffinity(0)),
        os.geteuid(),
    ]
