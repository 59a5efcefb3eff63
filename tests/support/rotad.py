"""A real ``rotad`` for tests: started, killed, started again, and always ended."""

import fcntl
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.stopping import stop

# What takes longer hangs: a node starts in 2 s, and a machine with other work may pause for 20 s.
DEADLINE_S = 60.0

Json = Any  # Any: JSON answers of the node; each test reads the fields that it checks.


class Refusal(Exception):
    """The node answered with a problem document."""

    def __init__(self, status: int, problem: Json, headers: dict[str, str]) -> None:
        super().__init__(f"{status} {problem}")
        self.status = status
        self.problem = problem
        self.headers = headers


class Rotad:
    """One node on a data directory, on a free port of the loopback.

    Args:
        data_dir: Its data directory.
        flags: Further flags.

    Attributes:
        prefix: Program and arguments before rotad's argv, for example to enter a namespace.
        ca: The authority of the API's certificate; None for an API without TLS.
        token: The token of requests; empty for none.
    """

    def __init__(self, data_dir: Path, *flags: str) -> None:
        self.data_dir = data_dir
        # A later flag takes precedence, so that a test can require keys.
        self.flags: tuple[str, ...] = ("--testing-executors", "--auth", "open", *flags)
        self.prefix: tuple[str, ...] = ()
        self.ca: Path | None = None
        self.token = ""
        self.url = ""
        self.process: subprocess.Popen[bytes] | None = None
        self.log_path = data_dir.with_suffix(".log")

    def start(self, timeout_s: float = DEADLINE_S) -> "Rotad":
        """Start the node and wait until it is ready."""
        self.spawn()
        self.wait_ready(timeout_s)
        return self

    def wait_ready(self, timeout_s: float = DEADLINE_S) -> None:
        """Wait until the node is ready."""
        self.wait_until(self.is_ready, timeout_s)

    def spawn(self) -> None:
        """Start the node without waiting."""
        self.url = ""
        # Its value changes at each step of a test, and a changed environment needs a new warden.
        environment = {**os.environ}
        environment.pop("PYTEST_CURRENT_TEST", None)
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *self.prefix, sys.executable, "-X", "faulthandler", "-P", "-m", "rota.node",
                    "--data-dir", str(self.data_dir), "--listen", "127.0.0.1:0",
                    *self.flags,
                ],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment,
            )  # fmt: skip

    def kill(self) -> None:
        """Kill the node's process; its warden and attempts keep running."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def kill_all(self) -> None:
        """Kill the node with its warden and all its attempts, as a power failure would."""
        self.kill()
        end_warden(self.data_dir)

    def vanish(self) -> None:
        """Kill all as the loss of a machine would: the warden sends no proof of death."""
        stop(warden_of(self.data_dir))
        self.kill_all()

    def stop(self, timeout_s: float = DEADLINE_S) -> int:
        """Send SIGTERM and return the node's exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def exit_status(self, timeout_s: float = DEADLINE_S) -> int:
        """Wait until the node ends by itself, and return its exit status."""
        assert self.process is not None
        return self.process.wait(timeout_s)

    def log(self) -> str:
        """Return the node's log."""
        return self.log_path.read_text(errors="replace")

    def log_in_short(self) -> str:
        """Return the log's first and last lines, without requests, for a failure's report."""
        lines = [line for line in self.log().splitlines() if '"rota.access"' not in line]
        cut = [f"... {len(lines) - 80} lines ..."] if len(lines) > 80 else []
        return "\n".join(lines[:30] + cut + lines[30:][-50:])

    def call(
        self, method: str, path: str, body: Json = None, headers: dict[str, str] | None = None
    ) -> Json:
        """Make a request and return the document, or the text, of its answer."""
        data = body if isinstance(body, bytes) else None
        if body is not None and data is None:
            data = json.dumps(body).encode()
        credential = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        request = urllib.request.Request(
            self.url + path,
            data=data,
            method=method,
            headers={"Content-Type": "application/json", **credential, **(headers or {})},
        )
        tls = ssl.create_default_context(cafile=self.ca) if self.ca else None
        try:
            with urllib.request.urlopen(request, timeout=60, context=tls) as answer:
                text = answer.read()
                is_json = "json" in answer.headers.get("Content-Type", "")
        except urllib.error.HTTPError as error:
            with error:
                raise Refusal(error.code, json.load(error), dict(error.headers)) from None
        return json.loads(text) if is_json else text.decode(errors="replace")

    def create(self, **body: Json) -> Json:
        """Create a job."""
        return self.call("POST", "/api/v1/jobs", body)

    def trigger(self, job: str, **body: Json) -> str:
        """Trigger a job and return the execution's id."""
        answer = self.call("POST", f"/api/v1/jobs/{job}/trigger", body)
        return str(answer["executionId"])

    def ended(self, execution_id: str, timeout_s: float = 30) -> Json:
        """Wait for an execution to end and return it."""
        path = f"/api/v1/executions/{execution_id}/wait?timeout={timeout_s}"
        execution = self.call("GET", path)
        assert execution["finishedAt"], f"not over after {timeout_s} s: {execution}"
        return execution

    def run(self, **body: Json) -> Json:
        """Create a job, trigger it, and return the execution once it has ended."""
        return self.ended(self.trigger(self.create(**body)["jobId"]))

    def ledger(self, job: str) -> list[Json]:
        """Return the whole ledger of a job."""
        entries: list[Json] = []
        cursor = ""
        while True:
            path = f"/api/v1/jobs/{job}/ledger?limit=1000" + (f"&cursor={cursor}" if cursor else "")
            page = self.call("GET", path)
            entries += page["items"]
            if not page["nextCursor"]:
                return entries
            cursor = page["nextCursor"]

    def wait_until(self, is_so: Callable[[], bool], timeout_s: float = DEADLINE_S) -> None:
        """Wait until *is_so*, or fail with the node's log."""

        def is_so_in_life() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, f"rotad ended:\n{self.log_in_short()}"
            return is_so()

        self.wait_for(is_so_in_life, timeout_s)

    def wait_for(self, is_so: Callable[[], bool], timeout_s: float = DEADLINE_S) -> None:
        """Wait until *is_so*, whether or not the node runs."""
        deadline = time.monotonic() + timeout_s
        while not is_so():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {timeout_s} s:\n{self._last_words()}")
            time.sleep(0.01)

    def _last_words(self) -> str:
        """Return the log, with the stacks of all threads of a node that still runs; it ends."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait()
        return self.log_in_short()

    def wait_logged(self, text: str, times: int = 1) -> None:
        """Wait until *text* is in the log *times* times, whether or not the node is ready."""
        self.wait_until(lambda: self.log().count(text) >= times)

    def _find_url(self) -> str:
        found = re.search(r'"listen": "([^"]+)"', self.log())
        scheme = "https" if self.ca else "http"
        self.url = f"{scheme}://{found[1]}" if found else ""
        return self.url

    def is_ready(self) -> bool:
        """Return True if the node is ready."""
        try:
            return bool(self.url or self._find_url()) and self.call("GET", "/readyz") == "ok\n"
        except (Refusal, OSError):
            return False

    def __enter__(self) -> "Rotad":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.kill()
        end_warden(self.data_dir)


def warden_of(data_dir: Path) -> int:
    """Return the process id of the warden of a data directory; 0 if there is none."""
    guard = guard_of(data_dir)
    children = Path(f"/proc/{guard}/task/{guard}/children")
    with suppress(FileNotFoundError, ProcessLookupError):  # Either may end at this moment.
        for child in children.read_text().split() if guard else ():
            if Path(f"/proc/{child}/comm").read_text().strip() == "rota-warden":
                return int(child)
    return 0


def end_warden(data_dir: Path) -> None:
    """Kill the warden of a data directory, and wait until its guard has ended all attempts."""
    deadline = time.monotonic() + DEADLINE_S
    while guard := guard_of(data_dir):
        if warden := warden_of(data_dir):
            with suppress(ProcessLookupError):
                os.kill(warden, signal.SIGKILL)
        assert time.monotonic() < deadline, f"guard {guard} does not end"
        time.sleep(0.005)


def guard_of(data_dir: Path) -> int:
    """Return the process id of the lock's holder; 0 if the lock is free."""
    path = data_dir / "warden.lock"
    if not path.exists():
        return 0
    with path.open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(lock.read() or 0)
    return 0


def processes_of(data_dir: Path) -> list[int]:
    """Return the processes that attempts of the node on *data_dir* have left."""
    store_id = json.loads((data_dir / "FORMAT").read_text())["storeId"]
    marked = f"ROTA_STORE_ID={store_id}".encode()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if marked in environment.split(b"\0"):
                found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]
