"""The proxies' configurations, in front of a real node."""

import json
import os
import re
import socketserver
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from io import BufferedIOBase
from pathlib import Path
from threading import Semaphore, Thread
from typing import Any

import pytest

from deploy.programs import DEPLOY, needs, run
from support.etcd import free_ports, wait_until
from support.rotad import Rotad

needs_haproxy = needs("haproxy", "haproxy")
needs_nginx = needs("nginx", "nginx-light")
each_program = pytest.mark.parametrize(
    "program",
    [pytest.param("haproxy", marks=needs_haproxy), pytest.param("nginx", marks=needs_nginx)],
)
KEY = "Idempotency-Key"


class Proxy:
    """A proxy on a free port of the loopback, in front of *nodes* (``HOST:PORT``)."""

    def __init__(self, folder: Path, nodes: list[str]) -> None:
        self.folder = folder
        self.nodes = nodes
        [self.port] = free_ports(1)

    def haproxy(self) -> list[str]:
        """Return the command of HAProxy, with the nodes in place of their name in DNS."""
        text = (DEPLOY / "haproxy.cfg").read_text()
        servers = "".join(f"    server n{n} {node}\n" for n, node in enumerate(self.nodes))
        text, count = re.subn(r"^ *server-template .*\n", servers, text, flags=re.MULTILINE)
        assert count == 1
        file = self.folder / "haproxy.cfg"
        file.write_text(text)
        return ["haproxy", "-db", "-f", str(file)]

    def nginx(self) -> list[str]:
        """Return the command of nginx, with the nodes in place of those of the example."""
        text = (DEPLOY / "nginx.conf").read_text()
        servers = "".join(f"        server {node};\n" for node in self.nodes)
        text, count = re.subn(r"(^ *server 10\..*\n)+", servers, text, flags=re.MULTILINE)
        assert count == 1
        text = text.replace("/run/nginx.pid", f"{self.folder}/nginx.pid")
        text = text.replace("listen 127.0.0.1:7400", f"listen 127.0.0.1:{self.port}")
        file = self.folder / "nginx.conf"
        file.write_text(text)
        directives = f"daemon off; error_log {self.folder}/error.log;"
        return ["nginx", "-p", str(self.folder), "-c", str(file), "-g", directives]

    @contextmanager
    def running(self, program: str) -> Generator["Proxy"]:
        """Run the proxy during the block."""
        argv = self.haproxy() if program == "haproxy" else self.nginx()
        environment = {**os.environ, "ROTA_BIND": f"127.0.0.1:{self.port}"}
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(argv, stdout=log, stderr=log, env=environment)
        try:
            wait_until(self.answers, f"{program} does not answer")
            yield self
        finally:
            process.terminate()
            process.wait(10)

    def answers(self) -> bool:
        """Return True if a node behind the proxy answers."""
        try:
            with self.asked("GET", "/livez") as answer:
                return answer.status == 200
        except OSError:
            return False

    @contextmanager
    def asked(self, method: str, path: str, **headers: str) -> Generator[HTTPResponse]:
        """Make a request, and yield the answer, read up to its body."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            connection.request(
                method, path, body=b"{}" if method == "POST" else None, headers=headers
            )
            yield connection.getresponse()

    def status_of(self, method: str, path: str, **headers: str) -> int:
        """Make a request, and return the status of the answer."""
        with self.asked(method, path, **headers) as answer:
            return answer.status


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rotad]:
    """One node."""
    with Rotad(tmp_path_factory.mktemp("node") / "data", "--drain", "0s") as rotad:
        yield rotad.start(60)


@needs_haproxy
def test_haproxy_takes_its_configuration_as_it_is() -> None:
    assert "Warning" not in run("haproxy", "-c", "-f", DEPLOY / "haproxy.cfg")


@needs_nginx
def test_nginx_takes_its_configuration_as_it_is(tmp_path: Path) -> None:
    run("nginx", "-t", "-c", DEPLOY / "nginx.conf", "-g", f"error_log {tmp_path}/error.log;")


@each_program
def test_an_event_passes_at_once_while_its_stream_stays_open(
    program: str, node: Rotad, tmp_path: Path
) -> None:
    node.create(name=f"through-{program}", command="true")
    address = node.url.removeprefix("http://")
    events = ("GET", f"/api/v1/events?type=execution&jobId=through-{program}")
    with (
        Proxy(tmp_path, [address]).running(program) as proxy,
        proxy.asked(*events, Accept="application/x-ndjson") as stream,
    ):
        opened = json.loads(stream.readline())

        execution_id = node.trigger(f"through-{program}")
        event = json.loads(stream.readline())

    assert opened["type"] == "stream.opened"
    assert (event["type"], event["executionId"]) == ("execution.queued", execution_id)


@each_program
def test_what_a_strange_page_sends_is_refused_behind_it_and_what_its_own_sends_is_not(
    program: str, node: Rotad, tmp_path: Path
) -> None:
    job = f"guarded-by-{program}"
    node.create(name=job, type="scripted")
    trigger = f"/api/v1/jobs/{job}/trigger"
    json_type = {"Content-Type": "application/json"}
    with Proxy(tmp_path, [node.url.removeprefix("http://")]).running(program) as proxy:
        own = f"127.0.0.1:{proxy.port}"
        attacks = [
            {},
            {"Content-Type": "text/plain"},
            {**json_type, "Content-Encoding": "gzip"},
            {**json_type, "Origin": "http://evil.example"},
            {**json_type, "Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"},
            {**json_type, "Origin": f"http://evil.example:{proxy.port}", "Host": "evil.example"},
        ]
        uses = [
            json_type,
            {**json_type, "Origin": f"http://{own}"},
            {**json_type, "Origin": f"http://{own}", "Sec-Fetch-Site": "same-origin"},
            {**json_type, "Host": "localhost"},
        ]

        refused = [proxy.status_of("POST", trigger, **each) for each in attacks]
        rebound = proxy.status_of("GET", "/api/v1/jobs", Host="evil.example")
        before = len(executions_of(node, job))
        answered = [proxy.status_of("POST", trigger, **each) for each in uses]

    assert (refused, rebound, before) == ([415, 415, 415, 403, 403, 403], 403, 0)
    assert answered == [201] * 4


def executions_of(node: Rotad, job: str) -> list[Any]:
    """Return the executions of a job."""
    return list(node.call("GET", f"/api/v1/executions?jobId={job}")["items"])


@each_program
def test_parts_of_an_answer_pass_before_its_end(program: str, tmp_path: Path) -> None:
    lines = [b"first\n", b"second\n", b"last\n"]
    asked_for = Semaphore(0)

    def write_when_asked(_: str, node: BufferedIOBase) -> None:
        node.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(b"".join(lines)))
        for line in lines:
            asked_for.acquire(timeout=20)
            node.write(line)

    with (
        standing_in(write_when_asked) as node,
        Proxy(tmp_path, [node]).running(program) as proxy,
        proxy.asked("GET", "/api/v1/jobs") as answer,
    ):
        read: list[bytes] = []
        for _ in lines:
            asked_for.release()
            read.append(answer.readline())

    assert read == lines


@pytest.mark.parametrize(
    ("program", "method", "headers", "is_repeated"),
    [
        pytest.param("haproxy", "GET", {}, True, marks=needs_haproxy),
        pytest.param("haproxy", "POST", {KEY: "k"}, True, marks=needs_haproxy),
        pytest.param("haproxy", "PUT", {KEY: "k"}, True, marks=needs_haproxy),
        pytest.param("haproxy", "DELETE", {KEY: "k"}, True, marks=needs_haproxy),
        pytest.param("haproxy", "POST", {}, False, marks=needs_haproxy),
        pytest.param("haproxy", "PUT", {}, False, marks=needs_haproxy),
        pytest.param("haproxy", "DELETE", {}, False, marks=needs_haproxy),
        pytest.param("nginx", "GET", {}, True, marks=needs_nginx),
        pytest.param("nginx", "PUT", {}, True, marks=needs_nginx),
        pytest.param("nginx", "DELETE", {}, True, marks=needs_nginx),
        pytest.param("nginx", "POST", {}, False, marks=needs_nginx),
        pytest.param("nginx", "PATCH", {}, False, marks=needs_nginx),
        pytest.param("nginx", "POST", {KEY: "k"}, False, marks=needs_nginx),
    ],
)
def test_what_a_node_may_have_begun_is_sent_again_only_where_that_is_safe(
    program: str, method: str, headers: dict[str, str], *, is_repeated: bool, tmp_path: Path
) -> None:
    arrived = sent_to_nodes_that_break_off(program, method, headers, tmp_path)

    assert len(arrived) > 1 if is_repeated else len(arrived) == 1


@needs_nginx
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_what_nginx_may_send_again_carries_one_key(method: str, tmp_path: Path) -> None:
    keys = key_lines(sent_to_nodes_that_break_off("nginx", method, {}, tmp_path))

    [key] = set(keys)
    assert len(keys) > 1
    assert re.fullmatch("idempotency-key: [0-9a-f]{32}", key)


@needs_nginx
@pytest.mark.parametrize(
    ("method", "headers", "lines"),
    [
        ("PUT", {KEY: "ours"}, {"idempotency-key: ours"}),
        ("POST", {KEY: "ours"}, {"idempotency-key: ours"}),
        ("POST", {}, set[str]()),
        ("GET", {}, set[str]()),
    ],
)
def test_nginx_leaves_the_keys_of_clients_as_they_are(
    method: str, headers: dict[str, str], lines: set[str], tmp_path: Path
) -> None:
    arrived = sent_to_nodes_that_break_off("nginx", method, headers, tmp_path)

    assert set(key_lines(arrived)) == lines


def key_lines(heads: list[str]) -> list[str]:
    """Return the lines with keys of the *heads* of requests."""
    lines = [line.lower() for head in heads for line in head.splitlines()]
    return [line for line in lines if line.startswith("idempotency-key:")]


def sent_to_nodes_that_break_off(
    program: str, method: str, headers: dict[str, str], folder: Path
) -> list[str]:
    """Return the heads of what arrives of one request at nodes of which none answers it."""
    arrived: list[str] = []
    with (
        standing_in(lambda head, _: arrived.append(head)) as node,
        Proxy(folder, [node, node]).running(program) as proxy,
        proxy.asked(method, "/api/v1/jobs/x/trigger", **headers) as answer,
    ):
        assert answer.status == 502
    return arrived


@contextmanager
def standing_in(answer: Callable[[str, BufferedIOBase], object]) -> Generator[str]:
    """Yield the address of a node that is ready, and whose every other answer is for *answer*.

    It is given the head of the request, and where to write to; the connection ends after it.
    """

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            head = ""
            while line := self.rfile.readline().decode().rstrip():
                head += f"{line}\n"
            length = re.search(r"^content-length: (\d+)$", head, re.MULTILINE | re.IGNORECASE)
            self.rfile.read(int(length[1]) if length else 0)
            if " /api/" in head:
                answer(head, self.wfile)
            else:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        host: Any
        host, port = server.server_address[:2]
        yield f"{host}:{port}"
        server.shutdown()
