"""``rota dev --nodes``: a local cluster that leaves nothing behind."""

import os
import re
import signal
import socket
import stat
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from rota.client import Client
from rota.client.dev.local_etcd import LocalEtcd
from support.etcd import needs_etcd
from support.rota_program import (
    Rota,
    kill_processes_that_name,
    processes_that_name,
    running,
    until,
)


@contextmanager
def dev(*flags: str) -> Generator[tuple["subprocess.Popen[str]", str]]:
    """Run ``rota dev``; give the process, and its output once all its nodes answer."""
    with running("dev", *flags) as process:
        try:
            assert process.stdout is not None
            said = ""
            while "kill -9" not in said:
                line = process.stdout.readline()
                assert line, process.communicate()
                said += line
            yield process, said
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=40)


def principal_at(url: str) -> str:
    """Return the principal of the token for *url*, once its node answers."""
    with Client(url) as client:
        assert until(client.ready)
        return client.whoami().principal


@needs_etcd
def test_a_temporary_cluster_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    with dev("--nodes", "3", "--port", "0") as (process, said):
        urls = re.search(r"export ROTA_URL=(\S+)", said)
        assert urls is not None
        with Client(urls[1]) as client:
            seen = client.cluster()
            ended = client.create_job({"name": "hello", "command": "echo hello"})
        logs = [Path(each) for each in re.findall(r"log (\S+)", said)]
        are_logs = [log.is_file() for log in logs]
        process.send_signal(signal.SIGINT)
        status = process.wait(40)

    assert [each.node_id for each in seen.nodes] == ["n1", "n2", "n3"]
    assert ended.name == "hello"
    assert are_logs == [True] * 4
    assert status == 0
    assert list(tmp_path.iterdir()) == []
    assert processes_that_name(tmp_path) == []


@needs_etcd
def test_a_killed_node_is_started_again_and_all_processes_end_with_their_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    try:
        with dev("--nodes", "2", "--port", "0") as (process, said):
            victim = re.search(r"kill -9 (\d+)", said)
            assert victim is not None
            os.kill(int(victim[1]), signal.SIGKILL)
            assert process.stderr is not None
            lines = [process.stderr.readline(), process.stderr.readline()]
            urls = re.search(r"export ROTA_URL=(\S+)", said)
            assert urls is not None
            principals = {principal_at(url) for url in urls[1].split(",")}
            before = processes_that_name(tmp_path)
            process.kill()
            process.wait()

        assert len(principals) == 1
        assert lines[0] == "n2 was killed; it is started again in 5 s\n"
        again = re.fullmatch(r"n2 is started again, process (\d+)\n", lines[1])
        assert again is not None
        assert again[1] != victim[1]
        assert len(before) >= 3
        assert until(lambda: processes_that_name(tmp_path) == [])
    finally:
        kill_processes_that_name(tmp_path)


@needs_etcd
def test_a_cluster_with_a_data_directory_keeps_its_jobs(tmp_path: Path) -> None:
    flags = ("--nodes", "2", "--port", "0", "--data-dir", str(tmp_path / "kept"))
    names: list[list[str]] = []

    for _ in range(2):
        with dev(*flags) as (_, said):
            urls = re.search(r"export ROTA_URL=(\S+)", said)
            assert urls is not None
            with Client(urls[1]) as client:
                names.append([job.name for job in client.jobs()])
                client.create_job({"name": "kept", "command": "true"})

    assert names == [[], ["kept"]]
    assert (tmp_path / "kept" / "n2.log").is_file()


def test_without_etcd_the_error_states_how_to_install_it(
    rota_alone: Rota, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ETCD", raising=False)

    missing = rota_alone("dev", "--nodes", "3", "--port", "0")
    monkeypatch.setenv("ETCD", "/nowhere/etcd")
    misnamed = rota_alone("dev", "--nodes", "3", "--port", "0")

    assert missing.status == misnamed.status == 2
    assert "it is not on the PATH; run apt-get install etcd-server" in missing.err
    assert "ETCD names '/nowhere/etcd', which is not a program" in misnamed.err


@needs_etcd
def test_a_cluster_that_does_not_start_leaves_nothing_behind(
    rota_alone: Rota, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        refused = rota_alone("dev", "--nodes", "2", "--port", str(port))

    assert refused.status == 6
    assert "its address is in use; choose another port" in refused.err
    assert until(lambda: not processes_that_name(tmp_path))
    assert list(tmp_path.iterdir()) == []


@needs_etcd
def test_a_temporary_etcd_refuses_requests_without_its_password(
    tmp_path: Path,
) -> None:
    answers: list[int] = []
    password_file = tmp_path / "etcd.password"
    for _ in range(2):  # The second finds all as the first has left it.
        etcd = LocalEtcd(tmp_path)
        etcd.start()
        try:
            written = Request(f"{etcd.url}/v3/kv/put", b'{"key": "YQ==", "value": "YQ=="}')
            with pytest.raises(HTTPError) as refused, build_opener(ProxyHandler({})).open(written):
                pass
            answers.append(refused.value.code)
            refused.value.close()
        finally:
            etcd.stop()

    assert answers == [400, 400]
    assert stat.S_IMODE(password_file.stat().st_mode) == 0o600


@needs_etcd
def test_web_pages_cannot_guess_the_address_of_a_temporary_etcd(tmp_path: Path) -> None:
    """Its password does not keep pages out of an etcd before 3.4.42 and 3.5.28."""
    first, second = LocalEtcd(tmp_path / "first"), LocalEtcd(tmp_path / "second")
    (tmp_path / "first").mkdir()
    first.start()
    try:
        assert first.process is not None
        ports = ports_of(first.process.pid)
        answering = [
            (host, port) for host in ("127.0.0.1", "::1") for port in ports if answers(host, port)
        ]
    finally:
        first.stop()

    hosts = [urlsplit(each.url).hostname or "" for each in (first, second)]
    assert all(ip_address(host).is_loopback for host in hosts)
    assert len({"127.0.0.1", *hosts}) == 3
    assert len(ports) == 2  # For clients, and for other members.
    assert answering == []


def ports_of(pid: int) -> list[int]:
    """Return the TCP ports on which a process listens."""
    sockets = {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()}
    ports: list[int] = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and f"socket:[{rest[5]}]" in sockets:
                ports.append(int(local.rpartition(":")[2], 16))
    return ports


def answers(host: str, port: int) -> bool:
    """Return True if a connection is accepted."""
    try:
        socket.create_connection((host, port), 5).close()
    except OSError:
        return False
    return True
