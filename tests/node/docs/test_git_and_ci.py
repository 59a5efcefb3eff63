"""The page Jobs from Git and CI: its pipelines and its job run, with a local repository."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.client.dev.local_node import LocalNode
from support.page_shell import PageShell, add_programs
from support.pages import Block, blocks, sections

PAGE = (Path(__file__).parents[3] / "docs/how-to/git-and-ci.md").read_text()
PARTS = sections(PAGE)
FILES = {block.file: block.content for block in blocks(PAGE) if block.file}
GITHUB = yaml.safe_load(FILES[".github/workflows/jobs.yaml"])["jobs"]
GITLAB = yaml.safe_load(FILES[".gitlab-ci.yml"])
REMOTE = yaml.safe_load(FILES["follow-git.yaml"])["env"]["REPOSITORY"]
FORBIDDEN = 4

pytestmark = pytest.mark.skipif(
    not (shutil.which("git") and shutil.which("bash")), reason="git or bash is not installed"
)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PageShell]:
    """A clone of a bare repository with the files of the page, and a node."""
    add_programs(tmp_path / "bin")  # For the tasks of the node.
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path / 'bin'}", prepend=":")
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        with LocalNode(tmp_path / "data", flags=("--drain", "0s")) as node:
            shell = PageShell(tmp_path, node.url)
            shell.must_run(
                "git init -q --bare -b main ../origin.git && git init -q -b main"
                " && git remote add origin ../origin.git && git config user.name Ann"
                " && git config user.email ann@example.com"
            )
            shell.follow(PARTS["The repository"])
            commit(shell, "First jobs")
            yield shell


def commit(shell: PageShell, message: str) -> None:
    shell.must_run(
        f"git add jobs stamp.sh && git commit -qm '{message}' && git push -q origin main"
    )


def change(shell: PageShell, file: str, old: str, new: str) -> None:
    path = shell.folder / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def github(shell: PageShell, job: str) -> str:
    """Run the steps of a job of the workflow, and return what they print, with the summary."""
    summary = shell.folder.parent / "summary"
    summary.write_text("")
    printed = [
        shell.must_run(
            step["run"],
            ROTA_TOKEN=(shell.folder / "ci.token").read_text().strip(),
            RUNNER_TEMP=str(shell.folder.parent),
            GITHUB_STEP_SUMMARY=str(summary),
        )
        for step in GITHUB[job]["steps"]
        if "run" in step and not step["run"].startswith("pip ")
    ]
    return "".join(printed) + summary.read_text()


def gitlab(shell: PageShell, job: str) -> str:
    """Run the lines of a job of GitLab, and return what they print."""
    lines = [line for line in GITLAB[job]["script"] if not line.startswith("pip ")]
    return shell.must_run("\n".join(lines), ROTA_TOKEN_FILE=str(shell.folder / "ci.token"))


def job(shell: PageShell, name: str) -> Any:
    """Return the document of a job, as the administrator sees it."""
    return json.loads(shell.must_run(f"rota jobs show billing/{name} -o json"))


@pytest.mark.timeout(240)
def test_the_pipelines_and_the_job_of_the_page_keep_the_cluster_equal_to_the_branch(
    shell: PageShell,
) -> None:
    shell.follow(PARTS["A key of the least role"])

    # A pull request shows, and a merge changes.
    assert "2 to create, 0 to replace, 0 to delete" in github(shell, "check")
    assert "created" in github(shell, "apply")
    first = shell.must_run("git log -1 --abbrev=12 --format=%h").strip()
    assert job(shell, "invoices")["labels"]["commit"] == first

    # A commit that changes one file makes a version of one job.
    change(shell, "jobs/invoices.yaml", "echo 42", "echo 43")
    commit(shell, "Another invoice")
    assert "0 to create, 1 to replace, 0 to delete, 1 unchanged" in gitlab(shell, "check")
    gitlab(shell, "apply")
    second = shell.must_run("git log -1 --abbrev=12 --format=%h").strip()
    assert second != first
    assert job(shell, "invoices")["labels"]["commit"] == second
    assert job(shell, "reminders")["labels"]["commit"] == first
    shell.follow(PARTS["Which commit was it?"])

    # The key of the pipeline can do no more than that.
    token = str(shell.folder / "ci.token")
    trigger = shell.run("rota trigger billing/invoices", ROTA_TOKEN_FILE=token)
    assert trigger.returncode == FORBIDDEN

    # A key that may only read cannot plan a change.
    shell.must_run("rota key create eve --role viewer --namespace billing > eve.token")
    change(shell, "jobs/reminders.yaml", "echo 3", "echo 4")
    plan = shell.run("rota plan -f jobs", ROTA_TOKEN_FILE=str(shell.folder / "eve.token"))
    assert plan.returncode == FORBIDDEN
    change(shell, "jobs/reminders.yaml", "echo 4", "echo 3")

    # The job follows the branch: it undoes a change by hand, and deletes what left the branch.
    origin = (shell.folder.parent / "origin.git").as_uri()
    follower = PARTS["A cluster that keeps itself equal to a branch"]
    shell.follow([Block(each.language, each.content.replace(REMOTE, origin)) for each in follower])
    assert job(shell, "invoices")["definition"]["retries"] == 3
    shell.must_run("git rm -q jobs/reminders.yaml")
    commit(shell, "No reminders")
    shell.must_run("rota trigger ops/follow-git --wait")
    assert shell.must_run("rota jobs list -n billing -o name").split() == ["billing/invoices"]


def test_a_job_that_is_wrong_or_too_much_at_once_stops_the_pull_request(tmp_path: Path) -> None:
    shell = PageShell(tmp_path)
    shell.follow(PARTS["The repository"])
    [validate, rehearse] = [
        step["run"]
        for step in GITHUB["check"]["steps"]
        if step.get("run", "").startswith(("rota validate", "rota rehearse"))
    ]
    assert {validate, rehearse} <= set(GITLAB["check"]["script"])

    change(shell, "jobs/invoices.yaml", "retries", "retrys")
    assert shell.run(validate).returncode == 9

    change(shell, "jobs/invoices.yaml", "retrys", "retries")
    text = (shell.folder / "jobs/invoices.yaml").read_text()
    for number in range(50):
        copy = text.replace("name: invoices", f"name: invoices-{number}")
        (shell.folder / f"jobs/invoices-{number}.yaml").write_text(copy)
    assert shell.run(rehearse).returncode == 8
