"""Access to the programs that deploy/ starts: closed unless its files open it explicitly."""

import os
import re
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.programs import DEPLOY
from rota.core.errors import Refused
from rota.node.system.bootstrap_key import read_bootstrap_key
from rota.node.system.config import load_config
from support.docker import wait_until
from support.etcd import Etcd, needs_etcd

Compose = Any  # Any: YAML; each test reads the fields that it checks.
COMPOSE_FILES = ("compose.yaml", "compose.etcd-3.yaml")


def settings_of_image() -> dict[str, str]:
    """Return the settings in the environment of the image."""
    text = (DEPLOY / "docker" / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.startswith("ENV ")]
    return dict(re.findall(r"(ROTA_\w+)=(\S+)", " ".join(lines)))


def services(name: str) -> dict[str, Compose]:
    """Return the services of a Compose file."""
    return dict(yaml.safe_load((DEPLOY / "docker" / name).read_text())["services"])


def test_the_image_alone_listens_on_loopback() -> None:
    config = load_config(None, settings_of_image(), {})

    assert config.listen.is_loopback
    assert not config.insecure


@pytest.mark.parametrize(
    ("settings", "what_to_set"),
    [
        ({"ROTA_LISTEN": "0.0.0.0:7400"}, "insecure"),
        ({"ROTA_ETCD": "http://etcd:2379"}, "listen on 0.0.0.0:7400, or set advertise"),
        ({"ROTA_ETCD": "http://etcd:2379"}, "listen on 0.0.0.0:7401, or set peer_advertise"),
    ],
)
def test_an_error_names_the_settings_missing_for_an_open_container(
    settings: dict[str, str], what_to_set: str
) -> None:
    with pytest.raises(Refused) as refused:
        load_config(None, {**settings_of_image(), **settings}, {})

    assert what_to_set in refused.value.detail


def test_compose_declares_its_nodes_insecure(tmp_path: Path) -> None:
    environment = services("compose.yaml")["node"]["environment"]
    settings = {name: str(value) for name, value in environment.items() if "{" not in str(value)}

    assert settings["ROTA_INSECURE"] == "true"
    settings["ROTA_BOOTSTRAP_KEY_FILE"] = str(first_key(tmp_path))
    assert load_config(None, {**settings_of_image(), **settings}, {}).insecure


def test_no_deployment_accepts_requests_without_a_key(tmp_path: Path) -> None:
    environment = services("compose.yaml")["node"]["environment"]
    settings = {name: str(value) for name, value in environment.items() if "{" not in str(value)}
    settings["ROTA_BOOTSTRAP_KEY_FILE"] = str(first_key(tmp_path))
    assert load_config(None, {**settings_of_image(), **settings}, {}).auth == "keys"

    documented = DEPLOY.parent / "docs" / "how-to" / "run-a-cluster.md"
    files = (documented, *(path for path in DEPLOY.rglob("*") if path.is_file()))
    texts = {path: path.read_text() for path in files}
    assert [path for path, text in texts.items() if re.search(r"(?i)auth\W+open", text)] == []


def test_the_first_key_is_made_once_and_for_the_user_of_the_nodes_alone(tmp_path: Path) -> None:
    file = first_key(tmp_path)
    made = file.read_text()

    assert read_bootstrap_key(file).text == made.strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert first_key(tmp_path).read_text() == made
    assert list(tmp_path.iterdir()) == [file]


def first_key(folder: Path) -> Path:
    """Return the file of a first key that the program of the image has made in *folder*."""
    file = folder / "first.token"
    program = DEPLOY / "docker" / "rota-first-key"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run([program, file], check=True, timeout=60, env={**os.environ, "PATH": path})
    return file


@pytest.mark.parametrize("name", COMPOSE_FILES)
def test_compose_publishes_on_loopback_and_etcd_nowhere(name: str) -> None:
    found = services(name)

    ports = [port for each in found.values() for port in each.get("ports", ())]
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []
    assert [each for each in found if "etcd" in each and "ports" in found[each]] == []


@pytest.mark.parametrize("name", COMPOSE_FILES)
def test_compose_has_etcd_in_a_network_of_the_nodes_alone(name: str) -> None:
    compose = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())
    inside = {each for each, what in services(name).items() if "etcd" in what.get("networks", ())}

    assert compose["networks"]["etcd"] == {"internal": True}
    assert inside - {"node"} <= {"etcd", "etcd-2", "etcd-3"}
    assert {each for each in services(name) if each.startswith("etcd-")} <= inside
    for each in inside - {"node"}:
        assert services(name)[each]["networks"] == ["etcd"]
    assert services("compose.yaml")["etcd"]["networks"] == ["etcd"]


@pytest.mark.parametrize("name", COMPOSE_FILES)
def test_compose_has_each_etcd_answer_to_its_own_name_alone(name: str) -> None:
    members = {each: what for each, what in services(name).items() if each.startswith("etcd")}

    asked = services(name)["node"]["environment"]["ROTA_ETCD"].split(",")

    assert sorted(asked) == sorted(f"http://{each}:2379" for each in members)
    for each, what in members.items():
        assert f"--host-whitelist={each}" in what["entrypoint"]


@needs_etcd
@pytest.mark.parametrize(
    ("host", "status"),
    [("etcd:2379", 200), ("127.0.0.1:2379", 421), ("172.18.0.2:2379", 421), ("evil.example", 421)],
)
def test_an_etcd_with_that_flag_takes_nothing_by_another_name(
    tmp_path: Path, host: str, status: int
) -> None:
    etcd = Etcd("etcd", tmp_path, "--host-whitelist=etcd")
    etcd.start()
    try:
        wait_until(lambda: answered(etcd, "etcd") == 200, lambda: "etcd does not answer")

        assert answered(etcd, host) == status
    finally:
        etcd.kill()


def answered(etcd: Etcd, host: str) -> int:
    """Return the status with which a write is answered that asks for *host*; 0 for none."""
    body, headers = b'{"key": "YQ==", "value": "YQ=="}', {"Host": host}
    try:
        request = urllib.request.Request(f"{etcd.url}/v3/kv/put", body, headers)
        with urllib.request.urlopen(request, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
