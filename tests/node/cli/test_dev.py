"""``rota dev``: one node for trials, its data and its errors."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from rota.client import Client
from rota.client.cli.setup.dev_files import save_jobs
from rota.client.errors import NotFound
from support.rota_program import (
    PROGRAM,
    Rota,
    kill_processes_that_name,
    processes_that_name,
    until,
)


def test_dev_runs_a_node_and_stops_it(tmp_path: Path) -> None:
    argv = [*PROGRAM, "dev", "--port", "0", "--data-dir", str(tmp_path / "data"), "--slots", "2"]

    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as dev:
        assert dev.stdout is not None
        assert dev.stderr is not None
        try:
            greeting = [*iter(dev.stdout.readline, "  rota executions\n")]
            url = next(line.split()[1] for line in greeting if line.startswith("  API"))
            with Client(url, repeats_max=0) as client:
                assert client.ready()
                with pytest.raises(NotFound):
                    client.job("absent")
                dev.send_signal(signal.SIGINT)
                status = dev.wait(20)
                assert not client.ready()
        finally:
            dev.terminate()
        errors = dev.stderr.read()

    assert (status, errors) == (0, "")
    assert f"  data  {tmp_path / 'data'} (kept; delete it for a fresh start)\n" in greeting
    assert f"  export ROTA_URL={url}\n" in greeting
    header = '-H "Authorization: Bearer $(rota auth token)"'
    assert f"  curl  curl {header} {url}/api/v1/jobs\n" in greeting


def test_the_node_ends_when_its_command_is_killed(tmp_path: Path) -> None:
    argv = [*PROGRAM, "dev", "--port", "0", "--data-dir", str(tmp_path / "data")]

    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as dev:
        assert dev.stdout is not None
        url = next(
            line.split()[1]
            for line in iter(dev.stdout.readline, "  rota executions\n")
            if line.startswith("  API")
        )
        try:
            with Client(url, repeats_max=0) as client:
                assert client.ready()
                dev.kill()

                assert until(lambda: not client.ready())
                assert until(lambda: not processes_that_name(tmp_path))
        finally:
            kill_processes_that_name(tmp_path)


def test_dev_reports_a_port_in_use(rota: Rota, url: str, tmp_path: Path) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    refused = rota("dev", "--port", url.rpartition(":")[2], "--data-dir", str(tmp_path))

    assert refused.status == 6
    assert (
        refused.err == "error: the node did not start: its address is in use; choose another port\n"
    )
    assert {number: signal.getsignal(number) for number in before} == before


def test_dev_reports_missing_packages(
    rota: Rota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.client.dev.local_node.NEEDS", ("no_such_module",))

    refused = rota("dev", "--data-dir", str(tmp_path))

    assert refused.status == 2
    assert "not installed: no_such_module; run pip install 'rota[node]'" in refused.err


def test_dev_keeps_its_data_in_the_state_directory_of_the_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rota.client.cli.setup.dev import default_data_dir

    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)

    assert default_data_dir(7400) == Path("/home/someone/.local/state/rota-data")
    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")
    assert default_data_dir(7400) == Path("/var/state/rota-data")
    assert default_data_dir(7500) == Path("/var/state/rota-data-7500")


def test_dev_obeys_the_environment_and_creates_demonstration_jobs(tmp_path: Path) -> None:
    argv = [*PROGRAM, "dev", "--port", "0", "--demo"]
    data_dir = tmp_path / "elsewhere"
    environment = {**os.environ, "ROTA_DATA_DIR": str(data_dir), "ROTA_SLOTS": "3"}

    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment, text=True) as dev:
        assert dev.stdout is not None
        try:
            greeting = [*iter(dev.stdout.readline, "  rota output demo-flaky@latest\n")]
            url = next(line.split()[1] for line in greeting if line.startswith("  API"))
            with Client(url) as client:
                names = [each.name for each in client.jobs()]
                execution = client.wait(client.trigger("demo-flaky").execution_id, timeout_s=30)
                [node] = client.cluster().nodes
        finally:
            dev.send_signal(signal.SIGINT)
            dev.wait(20)

    assert f"  data  {data_dir} (kept; delete it for a fresh start)\n" in greeting
    assert names == ["demo-flaky", "demo-heartbeat", "demo-report"]
    assert execution.status == "success"
    assert node.load is not None
    assert node.load.slots == 3


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_other_programs_need_the_token_that_rota_prints(rota_alone: Rota, tmp_path: Path) -> None:
    argv = [*PROGRAM, "dev", "--port", "0", "--data-dir", str(tmp_path / "data")]

    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as dev:
        assert dev.stdout is not None
        try:
            greeting = [*iter(dev.stdout.readline, "  rota executions\n")]
            url = next(line.split()[1] for line in greeting if line.startswith("  API"))
            token = rota_alone("auth", "token", "--url", url).out.strip()
            kept = (tmp_path / "data.token").read_text().strip()
            listed = rota_alone("jobs", "--url", url, "-o", "json")
            statuses = [
                curl(f"{url}/api/v1/jobs", *flags)
                for flags in ((), ("-H", f"Authorization: Bearer {token}"))
            ]
        finally:
            dev.send_signal(signal.SIGINT)
            dev.wait(20)

    assert token == kept
    assert listed.json == []
    assert statuses == ["401", "200"]
    assert rota_alone("auth", "token", "--url", url).status == 10


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_dev_open_requires_no_token(tmp_path: Path) -> None:
    argv = [*PROGRAM, "dev", "--port", "0", "--open", "--data-dir", str(tmp_path / "data")]

    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as dev:
        assert dev.stdout is not None
        try:
            greeting = [*iter(dev.stdout.readline, "  rota executions\n")]
            url = next(line.split()[1] for line in greeting if line.startswith("  API"))
            status = curl(f"{url}/api/v1/jobs")
        finally:
            dev.send_signal(signal.SIGINT)
            dev.wait(20)

    assert status == "200"
    assert any(line.startswith("  open  every program on this machine") for line in greeting)
    assert not (tmp_path / "data.token").exists()


def curl(url: str, *flags: str) -> str:
    """Return the status of the answer to a request of curl."""
    ran = subprocess.run(
        ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--noproxy", "*", *flags, url],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    return ran.stdout


def test_the_jobs_of_files_replace_those_of_earlier_files_alone(url: str) -> None:
    with Client(url) as client:
        client.put_job({"name": "own", "command": "true"})
        save_jobs([{"name": "a", "command": "true"}, {"name": "b", "command": "true"}], url, None)
        save_jobs([{"name": "b", "command": "true"}], url, None)

        assert [job.name for job in client.jobs(namespace="default")] == ["b", "own"]


def test_a_job_of_a_file_with_startup_runs_at_the_first_start_once(url: str) -> None:
    job = {"name": "up", "command": "true", "schedule": "@startup"}

    save_jobs([job], url, None)
    save_jobs([job], url, None)

    with Client(url) as client:
        assert len([*client.executions(job="default/up")]) == 1


def test_dev_runs_a_crontab_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_text("MAILTO=ann\n*/5 * * * * echo hello%world\n")
    folder = tmp_path / "data"
    argv = [*PROGRAM, "dev", "--port", "0", "--open", "--data-dir", str(folder), "-f", str(file)]

    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as dev:
        try:
            assert dev.stdout is not None
            greeting = [*iter(dev.stdout.readline, "  rota executions\n")]
            url = next(line.split()[1] for line in greeting if line.startswith("  API"))
            with Client(url) as client:
                (job,) = client.jobs()
                job = client.job(f"{job.namespace}/{job.name}")
        finally:
            dev.terminate()
            assert dev.stderr is not None
            printed = dev.stderr.read()

    assert job.definition is not None
    assert (job.definition["schedule"], job.definition["stdin"]) == ("*/5 * * * *", "world\n")
    assert "MAILTO" in printed
    assert "saved 1 job" in printed
