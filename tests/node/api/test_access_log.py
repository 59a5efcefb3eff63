"""The access log: one line for every answer that the setting selects, without secrets."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.raw_http import bare_request, exchange
from support.rotad import Refusal, Rotad

Json = Any  # Any: a line of the log, examined by each test.

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("flags", "logged"),
    [
        ((), [404]),
        (("--access-log", "errors"), [404]),
        (("--access-log", "all"), [200, 404]),
        (("--access-log", "off"), []),
    ],
    ids=["default", "errors", "all", "off"],
)
def test_the_setting_selects_the_logged_answers(
    tmp_path: Path, flags: tuple[str, ...], logged: list[int]
) -> None:
    with Rotad(tmp_path / "data", "--drain", "0s", *flags) as node:
        node.start()

        node.call("GET", "/version")
        with pytest.raises(Refusal):
            node.call("GET", "/api/v1/jobs/absent")
        node.stop()

        statuses = [line["status"] for line in lines(node)]
        assert statuses == logged


def test_another_level_of_the_log_leaves_the_logs_of_access_alone() -> None:
    program = """
import logging
from rota.node.access.refused_access import AUDIT_LOGGER
from rota.node.api.http.access_log import ACCESS_LOGGER
from rota.node.system.logs import begin_logging

begin_logging("error")
ACCESS_LOGGER.info("request answered")
AUDIT_LOGGER.info("access denied")
logging.getLogger("rota.node").info("node started")
"""

    ran = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )

    loggers = [json.loads(line)["logger"] for line in ran.stderr.splitlines()]
    assert loggers == ["rota.access", "rota.audit"]


def test_a_line_has_the_client_the_request_and_the_answer(tmp_path: Path) -> None:
    with Rotad(tmp_path / "data", "--drain", "0s", "--access-log", "all") as node:
        node.start()

        with pytest.raises(Refusal) as raised:
            node.call(
                "DELETE",
                "/api/v1/jobs/a%20b?token=hunter2&namespace=sales",
                headers={"X-Request-Id": "r-1", "traceparent": TRACE},
            )
        node.stop()

        (line,) = (line for line in lines(node) if line["method"] == "DELETE")
        assert line.pop("ms") > 0
        assert line.pop("bytes") > 0
        assert line.pop("at")
        assert line == {
            "level": "info",
            "event": "request answered",
            "logger": "rota.access",
            "method": "DELETE",
            "path": "/api/v1/jobs/a%20b",
            "query": ["namespace", "token"],
            "status": raised.value.status,
            "request": "r-1",
            "traceparent": TRACE,
            "remote": "127.0.0.1",
        }
        assert raised.value.problem["requestId"] == "r-1"


def test_absent_and_untrusted_values_are_left_out(tmp_path: Path) -> None:
    with Rotad(tmp_path / "data", "--drain", "0s", "--access-log", "all") as node:
        node.start()

        node.call("GET", "/version", headers={"traceparent": "hunter2"})
        node.stop()

        (line,) = (line for line in lines(node) if line["path"] == "/version")
        assert {"query", "traceparent"}.isdisjoint(line)
        assert "hunter2" not in node.log()


def test_a_long_path_is_cut(tmp_path: Path) -> None:
    with Rotad(tmp_path / "data", "--drain", "0s") as node:
        node.start()

        with pytest.raises(Refusal):
            node.call("GET", "/" + "x" * 5_000)
        node.stop()

        [cut] = lines(node)
        assert cut["path"] == "/" + "x" * 511


def test_a_request_that_is_malformed_or_refused_has_a_line_of_its_own(tmp_path: Path) -> None:
    with Rotad(tmp_path / "data", "--drain", "0s", "--access-log", "all") as node:
        node.start()

        exchange(node, b"GET / HTTP/9.9.9\r\n\r\n")
        exchange(node, bare_request("GET /openapi.json HTTP/1.1", "Host: evil.example"))
        node.stop()

        assert lines(node) == []
        found = [json.loads(line) for line in node.log().splitlines()]
        refusals = {line["event"]: line for line in found}
        assert refusals["request malformed"]["remote"] == "127.0.0.1"
        assert refusals["access denied"]["reason"] == "host_not_allowed"
        assert refusals["access denied"]["logger"] == "rota.audit"


def lines(node: Rotad) -> list[Json]:
    """Return the access log, but for the node's own beginning."""
    found = [json.loads(line) for line in node.log().splitlines() if line.startswith("{")]
    is_access = (line for line in found if line["logger"] == "rota.access")
    return [line for line in is_access if line["path"] != "/readyz"]
