"""A real browser shows pages of refusal_logs, which try to use a node through it."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from urllib.parse import urlsplit

import pytest

from contract.peers.networks import A, B, End, introduce
from deploy.programs import needs
from support.rotad import Rotad

pytestmark = needs("chromium", "chromium")
PAGE = Path(__file__).with_name("strange_page.html").read_text()
PEER_PAGE = Path(__file__).with_name("strange_peer_page.html").read_text()
WITHIN_S = 60
UNSEEN = "TypeError: Failed to fetch"
TRIES = {
    "fetch without a type": UNSEEN,
    "fetch with text": UNSEEN,
    "fetch with JSON": UNSEEN,
    "fetch without a body": UNSEEN,
    "read": UNSEEN,
    "beacon": "true",
    "form application/x-www-form-urlencoded": "sent",
    "form text/plain": "sent",
    "form multipart/form-data": "sent",
}
"""What a page tries, and what it sees of it."""
SENT = 7
"""Requests of those that a browser sends without asking the node first."""


@pytest.fixture(scope="module")
def victim(node: Rotad) -> Iterator[Rotad]:
    """A node with a job that pages try to trigger."""
    node.create(name="victim", type="scripted")
    yield node
    node.call("DELETE", "/api/v1/jobs/victim")


def test_a_page_of_another_origin_makes_and_triggers_no_job(victim: Rotad, tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    with refusing(victim):
        tried = tries_of_a_page(victim.url, mark, tmp_path)

    assert tried == TRIES
    assert_untouched(victim, mark)


def test_a_page_whose_name_is_made_to_point_here_reads_makes_and_triggers_nothing(
    victim: Rotad, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    port = urlsplit(victim.url).port
    rules = "--host-resolver-rules=MAP evil.example 127.0.0.1"

    with refusing(victim):
        tried = tries_of_a_page(
            f"http://evil.example:{port}", mark, tmp_path, rules, at="evil.example"
        )

    assert tried == TRIES
    assert_untouched(victim, mark)


def test_a_page_that_the_node_itself_would_serve_under_a_strange_name_is_refused(
    victim: Rotad, tmp_path: Path
) -> None:
    port = urlsplit(victim.url).port
    rules = "--host-resolver-rules=MAP evil.example 127.0.0.1"

    shown = shown_by_chromium(f"http://evil.example:{port}/api/v1/jobs", tmp_path, rules)
    own = shown_by_chromium(f"{victim.url}/api/v1/jobs", tmp_path, rules)

    assert "host_not_allowed" in shown
    assert "victim" not in shown
    assert "victim" in own


async def test_a_page_gets_no_link_and_reports_no_death(tmp_path: Path) -> None:
    """The peer port does not even read what a page sends: the browser names the page's origin."""
    async with End(B).living() as end:
        introduce(end, End(A))

        tried = await asyncio.to_thread(
            tries_of_a_page, f"http://127.0.0.1:{end.port}", tmp_path, tmp_path, page=PEER_PAGE
        )

        assert tried == {"socket /peer": "closed", "post /peer/death": "opaque"}
        assert end.count("rota_peer_refused_total", reason="browser") == len(tried)
        assert end.deaths == []
        assert end.links.peers == ()


@contextmanager
def refusing(node: Rotad) -> Generator[None]:
    """Raise if the node does not refuse requests while the body runs: the page was not shown."""
    before = refused_by(node)
    yield
    assert refused_by(node) >= before + SENT


def refused_by(node: Rotad) -> int:
    """Return how many POST requests a node has refused."""
    found = re.findall(
        r'^rota_http_requests_total{method="POST",status="4(?:03|15)"} (.+)$',
        node.call("GET", "/metrics"),
        re.MULTILINE,
    )
    return sum(int(float(each)) for each in found)


def assert_untouched(node: Rotad, mark: Path) -> None:
    """Raise if a page has made a job, or triggered one."""
    assert [job["name"] for job in node.call("GET", "/api/v1/jobs")["items"]] == ["victim"]
    assert node.call("GET", "/api/v1/executions")["items"] == []
    assert not mark.exists()


def tries_of_a_page(
    node: str, mark: Path, folder: Path, *flags: str, at: str = "127.0.0.1", page: str = PAGE
) -> dict[str, str]:
    """Return what a page, shown under the name *at*, tried at *node*, and what it saw of it."""
    filled = page.replace("@NODE@", node).replace("@MARK@", str(mark))
    with page_server(filled, at) as (url, reports), chromium(folder, *flags, url):
        try:
            return dict(reports.get(timeout=WITHIN_S))
        except Empty:
            log = (folder / "chromium.log").read_text(errors="replace")
            raise AssertionError(f"the page reported nothing in {WITHIN_S} s:\n{log}") from None


@contextmanager
def page_server(page: str, at: str) -> Generator[tuple[str, "Queue[list[tuple[str, str]]]"]]:
    """Serve *page* on the loopback, and yield its address and its reports."""
    reports: Queue[list[tuple[str, str]]] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            own = f"http://{at}:{server.server_address[1]}"
            self._answer(page.replace("@OWN@", own).encode())

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            reports.put(json.loads(self.rfile.read(length)))
            self._answer(b"")

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base's name
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{at}:{server.server_address[1]}/", reports
        server.shutdown()


def command_of(folder: Path, *more: str) -> list[str]:
    """Return the command of a browser that asks for nothing by itself."""
    return [
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={folder / 'profile'}", *more,
    ]  # fmt: skip


@contextmanager
def chromium(folder: Path, *more: str) -> Generator[None]:
    """Run the browser while the body runs."""
    argv = command_of(folder, *more)
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
        shutil.rmtree(folder / "profile", ignore_errors=True)


def shown_by_chromium(url: str, folder: Path, *flags: str) -> str:
    """Return what the browser makes of *url*."""
    argv = command_of(folder, *flags, "--dump-dom", url)
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=WITHIN_S, check=True)
    return ran.stdout
