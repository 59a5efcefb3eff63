"""The page One node with systemd and a backup: its commands run, and the copy is restored."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.etcd import free_ports
from support.page_shell import add_programs
from support.pages import blocks, is_as_shown
from support.rota_program import PATIENCE_S
from support.rotad import end_warden

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/how-to/single-node.md").read_text()
UNIT = ROOT / "deploy/systemd/rotad.service"
OURS = ("/etc/", "/opt/rota/", "/usr/local/sbin/", "/var/lib/rota", "/var/backups/rota")
"""Paths of the page, which are below a folder of the test."""
SYSTEMCTL = """#!/bin/bash
# Does with the units of UNITS what the page needs of systemd.
name=${!#}
unit=UNITS/${name%.service}
[[ -f $unit ]] || unit=$unit.service
case $1 in
  daemon-reload) exit ;;
  is-active) kill -0 $(cat UNITS/pid) && echo active; exit ;;
  stop)
    pid=$(cat UNITS/pid) && kill $pid
    while kill -0 $pid 2>/dev/null; do sleep 0.05; done
    exit ;;
  enable) [[ -f $unit ]] || exit 1 ;;
esac
[[ $name == *.timer ]] && exit
command=$(sed -n 's/^ExecStart=//p' $unit)
if grep -q Type=oneshot $unit; then exec $command; fi
[[ -f UNITS/pid ]] && kill -0 $(cat UNITS/pid) 2>/dev/null && exit
export $(sed -n 's/^Environment=//p' $unit)
$command >> UNITS/log 2>&1 < /dev/null &
echo $! > UNITS/pid
until curl -sf http://127.0.0.1:PORT/readyz > /dev/null; do kill -0 $! || exit 1; sleep 0.05; done
"""

pytestmark = pytest.mark.skipif(
    not (shutil.which("bash") and shutil.which("curl")), reason="bash or curl is not installed"
)


def placed(text: str, root: Path, port: int) -> str:
    """Return text with the paths of the test, and its port."""
    for path in OURS:
        text = re.sub(rf"(?<![\w/]){path}", f"{root}{path}", text)
    return text.replace(":7400", f":{port}")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Path]:
    """A folder as the root of a machine on which step 1 of the page is done."""
    [port] = free_ports(1)
    (tmp_path / "port").write_text(str(port))
    units = tmp_path / "etc/systemd/system"
    for folder in (
        units,
        tmp_path / "home",
        tmp_path / "usr/local/sbin",
    ):
        folder.mkdir(parents=True)
    add_programs(tmp_path / "opt/rota/bin")
    systemctl = tmp_path / "opt/rota/bin/systemctl"
    systemctl.write_text(SYSTEMCTL.replace("UNITS", str(units)).replace("PORT", str(port)))
    systemctl.chmod(0o755)
    (units / UNIT.name).write_text(placed(UNIT.read_text(), tmp_path, port))
    yield tmp_path
    subprocess.run([systemctl, "stop", "rotad"], check=False)
    for name in ("rota", "rota.broken"):
        end_warden(tmp_path / "var/lib" / name)


def test_the_commands_print_what_the_page_shows(machine: Path) -> None:
    port = int((machine / "port").read_text())
    environment = {
        **{name: text for name, text in os.environ.items() if not name.startswith("ROTA_")},
        "HOME": str(machine / "home"),
        "PATH": f"{machine}/opt/rota/bin:{os.environ['PATH']}",
    }

    for block in blocks(placed(PAGE, machine, port)):
        if block.file:
            block.save(machine / "home")
        for command, shown in block.steps:
            ran = subprocess.run(
                ["bash", "-c", command], cwd=machine / "home", env=environment,
                capture_output=True, text=True, timeout=PATIENCE_S, check=False,
            )  # fmt: skip
            printed = ran.stdout or ran.stderr
            assert ran.returncode == 0, f"$ {command}\n{printed}{ran.stderr}"
            assert not shown or is_as_shown(shown, printed), f"$ {command}\n{printed}"

    [kept] = (machine / "var/backups/rota").iterdir()
    assert (kept / "FORMAT").exists()


def test_only_the_installation_and_the_upgrade_are_not_run() -> None:
    not_run = [block for block in blocks(PAGE) if not block.file and not block.steps]

    assert [block.language for block in not_run] == ["sh", "sh"]
    assert all("pip install" in block.content for block in not_run)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_the_units_of_the_backup(tmp_path: Path) -> None:
    units = [block for block in blocks(PAGE) if block.language == "ini"]
    for block in units:
        (tmp_path / Path(block.file).name).write_text(block.content)

    ran = subprocess.run(
        ["systemd-analyze", "verify", *tmp_path.glob("rota-backup.*")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert len(units) == 2
    assert (ran.returncode, ran.stderr) == (0, "")
