"""Permitted binds of namespaces, through the warden of a real node."""

from pathlib import Path
from typing import Any

import pytest

from support.rotad import Rotad

Json = Any  # Any: an answer of a node, examined by each test.


def ended(node: Rotad, name: str) -> Json:
    """Trigger a job of ``team-a``, and return its only task when it has ended."""
    made = node.call("POST", f"/api/v1/jobs/team-a%2F{name}/trigger")
    execution = node.call("GET", f"/api/v1/executions/{made['executionId']}/wait?timeout=30s")
    return execution["tasks"]["main"]


def save(node: Rotad, name: str, bind: Path) -> None:
    """Save a job that reads a file in a sandbox."""
    node.call(
        "PUT",
        f"/api/v1/jobs/team-a/{name}",
        {
            "command": "cat /bound/file",
            "sandbox": {"profile": "strict", "binds": [f"{bind}:/bound"]},
            "retries": {"limit": 3, "backoff": "fixed", "delay": "1ms"},
        },
    )


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Two folders with a file each, and a link in the first one to the second one."""
    for name in ("inside", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "outside")
    return tmp_path


def test_a_link_out_of_a_permitted_folder_is_refused_by_the_warden_without_retries(
    own_node: Rotad, folders: Path
) -> None:
    node = own_node.start()
    policy = {"sandbox": "strict", "binds": [str(folders / "inside")]}
    node.call("PUT", "/api/v1/namespaces/team-a", {"policy": policy})
    save(node, "good", folders / "inside")
    save(node, "bad", folders / "inside" / "link")

    good, bad = ended(node, "good"), ended(node, "bad")

    assert good["status"] == "success"
    assert bad["status"] == "failed"
    [attempt] = bad["attempts"]
    assert attempt["reason"].startswith("policy of the namespace: a bind of ")
    assert "which leads to" in attempt["reason"]
