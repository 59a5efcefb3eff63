"""Two minutes of mixed chaos under a small load: part of `make test`.

It runs alone, after the other tests: nodes that wait for a processor hand their shards over.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.etcd import needs_etcd

ROOT = Path(__file__).parent.parent.parent
LOAD = ("--fires", "20", "--submissions", "5")


@needs_etcd
@pytest.mark.skipif(os.geteuid() != 0, reason="no chaos on real hosts: namespaces take root")
@pytest.mark.timeout(900)
def test_two_minutes_of_mixed_chaos_violate_nothing(tmp_path: Path) -> None:
    run = [sys.executable, "-P", "-m", "chaos", "--minutes", "2", "--seed", "1", *LOAD]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}/tests"}

    ended = subprocess.run([*run, "--folder", str(tmp_path)], env=environment, check=False)

    assert ended.returncode == 0, "see above; the folder has the histories"
    counts = json.loads((tmp_path / "figures.json").read_text())["counts"]
    assert sum(counts["faults"].values()) >= 5
    assert counts["fires"]["fired"] > 0
    assert counts["submissions"]["ok"] > 0
