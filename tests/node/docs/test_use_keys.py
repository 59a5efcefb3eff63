"""The page From one laptop to keys: its commands run on a node that starts without a key."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.etcd import free_ports
from support.page_shell import PageShell, add_programs
from support.pages import Block, sections
from support.rotad import Rotad

PAGE = (Path(__file__).parents[3] / "docs/how-to/use-keys.md").read_text()
PARTS = sections(PAGE)
START = "rotad --data-dir data &"
SHOWN_PRINCIPAL = "reset-Xk3v9TqB"
FORBIDDEN, NOT_AUTHENTICATED = 4, 10

pytestmark = pytest.mark.skipif(
    not (shutil.which("openssl") and shutil.which("bash")),
    reason="openssl or bash is not installed",
)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rotad]:
    """A node without a key, whose data directory is in the user's home."""
    add_programs(tmp_path / "bin")  # For its tasks.
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    [port] = free_ports(1)
    flags = ("--auth", "keys", "--drain", "0s", "--listen", f"127.0.0.1:{port}")
    home = tmp_path / "home"
    home.mkdir()
    with Rotad(home / "data", *flags) as node:
        yield node.start()


@pytest.fixture
def shell(node: Rotad, tmp_path: Path) -> PageShell:
    """The shell of the user who has done the first section of the page."""
    shell = PageShell(tmp_path, node.url)
    for command in commands("One node"):
        if command != START:
            shell.must_run(command)
    return shell


def commands(heading: str) -> list[str]:
    return [command for block in PARTS[heading] for command, _ in block.steps]


def test_the_first_key_is_that_of_an_administrator(shell: PageShell) -> None:
    assert shell.run("rota auth whoami", HOME="/nonexistent").returncode == NOT_AUTHENTICATED
    assert "cluster-admin" in shell.must_run("rota auth whoami")
    assert START in commands("One node")


def test_a_key_has_a_role_until_it_is_revoked(shell: PageShell) -> None:
    first = commands("A key for each user")
    end = next(number for number, each in enumerate(first) if "revoke" in each)
    create = "rota jobs create hello -n team-a -- true"

    for command in first[:end]:
        shell.must_run(command)
    token = str(shell.folder / "ci.token")
    assert shell.run(create, ROTA_TOKEN_FILE=token).returncode == 0
    assert shell.run("rota grant ci viewer team-a", ROTA_TOKEN_FILE=token).returncode == FORBIDDEN

    for command in first[end:]:
        shell.must_run(command)
    assert shell.run(create, ROTA_TOKEN_FILE=token).returncode == NOT_AUTHENTICATED


def test_a_task_triggers_a_job_of_another_namespace_with_its_own_token(shell: PageShell) -> None:
    [job] = [block for block in PARTS["A token for each task"] if block.language == "yaml"]
    (shell.folder / "nightly.yaml").write_text(job.content)
    shell.must_run("rota jobs create report -n team-b -- true && rota apply -f nightly.yaml")
    trigger = "rota trigger team-a/nightly --wait"
    assert shell.run(trigger).returncode == 1

    for command in commands("A token for each task"):
        shell.must_run(command)

    shell.must_run(trigger)
    [execution] = json.loads(shell.must_run("rota executions list team-b/report -o json"))
    assert execution["triggeredBy"]["principal"] == "job:team-a/nightly"


def test_a_certificate_and_an_issuer_get_roles(shell: PageShell) -> None:
    shell.must_run("rota certs init --dir nodes")
    for command in commands("A browser"):
        password = " -passout pass:secret" if command.startswith("openssl") else ""
        shell.must_run(command + password)
    for block in PARTS["Tokens of an identity provider"]:
        shell.follow([block])

    bindings = shell.must_run("rota get bindings -o yaml")
    for subject in ("cert:ann", "group:corp/data-team", "sub:corp/248289761001"):
        assert subject in bindings


def test_a_lost_key_of_an_administrator_is_replaced(shell: PageShell, node: Rotad) -> None:
    inside = PARTS["No key of an administrator is left"]
    config = shell.folder / "rota.toml"
    config.write_text(f'data_dir = "{shell.folder}/data"\n')
    reset, *after = [
        command
        for block in inside
        for command, _ in Block(
            block.language, block.content.replace("/etc/rota/rota.toml", str(config))
        ).steps
    ]
    shell.must_run("rota key revoke bootstrap")
    assert shell.run("rota auth whoami").returncode == NOT_AUTHENTICATED

    node.stop()
    shell.must_run(reset)
    node.start()
    token = str(shell.folder / "reset.token")
    whoami = json.loads(shell.must_run("rota auth whoami -o json", ROTA_TOKEN_FILE=token))
    for command in after:
        shell.must_run(command.replace(SHOWN_PRINCIPAL, whoami["principal"]))

    assert "ana" in shell.must_run("rota auth whoami")
    assert shell.run("rota jobs", ROTA_TOKEN_FILE=token).returncode == NOT_AUTHENTICATED
