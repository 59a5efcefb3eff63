"""Commands that run as another user of the machine."""

import os
import pwd
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.rotad import Json, Refusal, Rotad, end_warden, guard_of, processes_of, warden_of

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can run programs as other users"
)
OTHER = pwd.getpwnam("backup")


# Groups as those of root on many machines, which its tasks have to lose.
ROOT = ("setpriv", "--groups", "0,4,24")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rotad]:
    data = accessible(tmp_path_factory.mktemp("users")) / "data"
    with Rotad(data, "--drain", "0s", "--task-users", "backup,absent-user") as node:
        node.prefix = ROOT
        try:
            yield node.start()
        finally:
            end_warden(data)
            for pid in processes_of(data):  # After a test that failed.
                os.kill(pid, 9)


def accessible(folder: Path) -> Path:
    """Return *folder* after letting all users pass through the folders above it."""
    for each in (folder, *folder.parents):
        if each.stat().st_uid == os.geteuid() and not each.stat().st_mode & 0o001:
            each.chmod(each.stat().st_mode | 0o111)
    return folder


def ran(node: Rotad, name: str, command: str, **fields: Json) -> Json:
    """Return the only attempt of a command of the user, and the output."""
    execution = node.run(**{"user": "backup", "name": name, "command": command, **fields})
    attempt = execution["tasks"]["main"]["attempts"][-1]
    path = f"/api/v1/executions/{execution['executionId']}/tasks/main/output"
    return {**attempt, "output": node.call("GET", path) if attempt["exitCode"] != -1 else ""}


def test_a_command_has_the_rights_of_its_user_alone(node: Rotad) -> None:
    found = ran(
        node,
        "who",
        "id -u; id -g; id -G; echo $USER $LOGNAME $HOME; cat /etc/shadow || echo none; "
        "grep -E '^Cap(Prm|Eff|Amb)' /proc/self/status",
    )

    uid, gid, groups, names, *rest = found["output"].splitlines()
    assert (int(uid), int(gid)) == (OTHER.pw_uid, OTHER.pw_gid)
    assert {*map(int, groups.split())} == {*os.getgrouplist("backup", OTHER.pw_gid)}
    assert names == f"backup backup {OTHER.pw_dir}"
    assert "none" in rest
    assert re.findall(r"Cap\w+:\s*(\w+)", found["output"]) == ["0" * 16] * 3


def test_reports_files_and_streams_work(node: Rotad) -> None:
    command = (
        "echo out >/dev/stdout; echo error >/dev/stderr; cat /dev/stdin; touch here; pwd; "
        "echo 50 >$ROTA_PROGRESS; echo state >$ROTA_CHECKPOINT; echo '[1]' >$ROTA_RESULT"
    )

    found = ran(node, "reports", command, stdin="in\n")

    assert found["output"].startswith("out\nerror\nin\n/var/tmp/rota-users-")
    assert found["result"] == [1]
    assert found["outcome"] == "success"
    folder = Path(found["output"].splitlines()[-1])
    node.wait_until(lambda: not folder.exists())


def test_the_next_attempt_may_replace_the_checkpoint(node: Rotad) -> None:
    command = (
        'if [ -s "$ROTA_CHECKPOINT" ]; then cat "$ROTA_CHECKPOINT"; echo two >"$ROTA_CHECKPOINT"; '
        'else echo one >"$ROTA_CHECKPOINT"; exit 1; fi'
    )

    retries = {"limit": 1, "backoff": "fixed", "delay": 0}
    found = ran(node, "again", command, retries=retries)

    assert (found["number"], found["output"]) == (2, "one\n")


def test_a_folder_that_the_user_cannot_enter_is_not_entered(node: Rotad, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)

    found = ran(node, "inside", "ls", cwd=str(tmp_path / "open"))

    assert found["outcome"] == "failed"
    assert "can't cd" in found["output"]


def test_a_program_that_only_root_can_run_is_not_run(node: Rotad, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)

    found = ran(node, "program", [str(program)])  # type: ignore[arg-type]  # a list of words

    assert found["outcome"] == "failed"
    assert "ran" not in found["output"].splitlines()


def test_limits_apply(node: Rotad) -> None:
    found = ran(node, "limited", "id -un; cat /proc/self/limits", limits={"memory": "64MiB"})

    assert found["outcome"] == "success", found
    assert found["output"].startswith("backup\n")


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        ("daemon", "its setting task_users does not have this name"),
        ("absent-user", "there is no user 'absent-user' on this node"),
        ("root", "its setting task_users does not have this name"),
    ],
)
def test_a_command_never_runs_as_another_user_than_its_own(
    node: Rotad, user: str, reason: str
) -> None:
    found = ran(node, f"as-{user}", "id", user=user)

    assert found["outcome"] == "failed"
    assert reason in found["reason"]
    assert found["output"] == ""


def test_all_processes_end_with_the_program_and_with_a_stop(node: Rotad, tmp_path: Path) -> None:
    ran(node, "left", "setsid sleep 617 & exit 0")
    assert not running("sleep 617")

    node.create(name="stopped", user="backup", command="trap '' TERM; sleep 618", stopGrace="100ms")
    execution = node.trigger("stopped")
    node.wait_until(lambda: bool(running("sleep 618")))
    node.call("POST", f"/api/v1/executions/{execution}/cancel")

    assert node.ended(execution)["status"] == "cancelled"
    assert not running("sleep 618")


@pytest.mark.parametrize("is_guarded", [True, False], ids=["guarded", "unguarded"])
def test_programs_that_a_killed_warden_left_are_ended(node: Rotad, *, is_guarded: bool) -> None:
    name = f"orphaned-{is_guarded}".lower()
    node.create(name=name, user="backup", command="sleep 619", retries=0)
    node.trigger(name)
    node.wait_until(lambda: bool(running("sleep 619")))
    first = running("sleep 619")

    warden = warden_of(node.data_dir)
    if not is_guarded:  # Without the guard, the next one finds the programs by their environment.
        os.kill(guard_of(node.data_dir), 9)
    os.kill(warden, 9)

    node.wait_until(lambda: not {*first} & {*running("sleep 619")}, 30)
    for execution in node.call("GET", f"/api/v1/executions?jobId=default%2F{name}")["items"]:
        node.call("POST", f"/api/v1/executions/{execution['executionId']}/cancel")
    node.wait_until(lambda: not running("sleep 619"), 30)


def test_a_job_keeps_its_user_when_it_is_changed_in_part(node: Rotad) -> None:
    node.create(name="kept", user="backup", command="true")

    node.call("PATCH", "/api/v1/jobs/default%2Fkept", {"description": "x"})
    shown = node.call("GET", "/api/v1/jobs/default%2Fkept")["tasks"][0]

    assert (shown["type"], shown["user"]) == ("user", "backup")


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"sandbox": "strict"}, "/sandbox"),
        ({"command": None, "python": "m:f"}, "/user"),
        ({"command": None, "container": "busybox"}, "/user"),
        ({"user": "", "type": "user", "command": None}, "/type"),
    ],
)
def test_a_task_that_could_not_run_as_the_user_is_not_saved(
    node: Rotad, fields: Json, place: str
) -> None:
    with pytest.raises(Refusal) as refused:
        node.create(**{"name": "x", "command": "true", "user": "backup", **fields})

    assert place in [each["pointer"] for each in refused.value.problem["errors"]]


def running(words: str) -> list[int]:
    """Return the processes of a user with these arguments."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                is_theirs = entry.stat().st_uid == OTHER.pw_uid
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            except OSError:
                continue
            if is_theirs and line == words:
                found.append(int(entry.name))
    return found
