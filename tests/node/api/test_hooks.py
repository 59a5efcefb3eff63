"""Hooks of jobs on a real node: webhooks to a receiver on loopback, and jobs that are triggered."""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.rota_program import Rota
from support.rotad import Refusal, Rotad
from support.webhook_receiver import Receiver

KEY = b"k" * 32


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    receiver.start()
    yield receiver
    receiver.stop()


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rotad]:
    """A node that may post to loopback, and signs what it posts."""
    folder = tmp_path_factory.mktemp("hooked")
    keys = folder / "keys"
    keys.write_text(f"whsec_{base64.b64encode(KEY).decode()}\n")
    flags = ("--webhook-hosts", "127.0.0.1", "--webhook-key-file", str(keys))
    with Rotad(folder / "data", "--drain", "0s", *flags) as rotad:
        yield rotad.start()


def hooks_ended(node: Rotad, outcome: str) -> float:
    """Return how many hooks ended with *outcome*."""
    text: str = node.call("GET", "/metrics")
    name = f'rota_hooks_total{{outcome="{outcome}"}} '
    return next(float(line.removeprefix(name)) for line in text.splitlines() if name in line)


def test_a_failure_is_posted_signed_until_it_is_accepted(hooked: Rotad, receiver: Receiver) -> None:
    path = "/signed/500-204"
    before = hooks_ended(hooked, "delivered")

    ended = hooked.run(
        name="failing", command="exit 3", onFailure=[{"webhook": receiver.url(path)}]
    )
    hooked.wait_until(lambda: hooks_ended(hooked, "delivered") == before + 1)

    first, second = receiver.at(path)
    message_id = first.headers["webhook-id"]
    assert message_id == second.headers["webhook-id"] == f"{ended['executionId']}.failure.0"
    assert first.body == second.body
    assert json.loads(first.body)["type"] == "job.failure"
    assert first.event["executionId"] == ended["executionId"]
    assert first.event["reason"] == "task main failed: exited with code 3"
    for request in (first, second):
        signed = f"{message_id}.{request.headers['webhook-timestamp']}.".encode() + request.body
        digest = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
        assert request.headers["webhook-signature"] == f"v1,{digest}"


def test_a_notification_survives_the_kill_of_its_node(tmp_path: Path) -> None:
    away = Receiver()
    away.start()
    away.stop()
    rotad = Rotad(tmp_path / "killed", "--drain", "0s", "--webhook-hosts", "*")
    with rotad as node:
        node.start()
        url = away.url("/late/200")
        ended = node.run(name="failing", command="false", onFailure=[{"webhook": url}])
        node.kill()
        away.start()
        try:
            node.start()
            node.wait_until(lambda: len(away.requests) == 1)
        finally:
            away.stop()

    assert away.requests[0].event["executionId"] == ended["executionId"]


def test_a_refused_webhook_is_an_event_and_a_line_of_its_job(
    hooked: Rotad, receiver: Receiver, rota: Rota
) -> None:
    hook = {"webhook": receiver.url("/secret-path/400")}

    hooked.run(name="refused", command="true", onSuccess=[hook])
    hooked.wait_until(lambda: hooked.call("GET", "/api/v1/jobs/refused")["retryingHooks"])

    origin = receiver.url("")
    (shown,) = hooked.call("GET", "/api/v1/jobs/refused")["retryingHooks"]
    assert (shown["event"], shown["receiver"], shown["waiting"]) == ("success", origin, 1)
    assert shown["reason"] == "the receiver answered 400: no text in *** {}"
    line = f"1 webhook of success to {origin}: {shown['reason']}; next attempt at "
    assert line in rota("jobs", "show", "refused", "--url", hooked.url).out


def test_a_webhook_for_a_chat_has_a_text(hooked: Rotad, receiver: Receiver) -> None:
    hook = {"webhook": receiver.url("/chat/200"), "format": "slack"}

    ended = hooked.run(name="chatty", command="exit 3", onFailure=[hook])
    hooked.wait_until(lambda: bool(receiver.at("/chat/200")))

    (request,) = receiver.at("/chat/200")
    assert json.loads(request.body)["text"].splitlines() == [
        "Job default/chatty failed",
        f"Execution {ended['executionId']}: failed",
        "task main failed: exited with code 3",
    ]
    assert hooked.call("GET", "/api/v1/jobs/chatty")["definition"]["onFailure"] == [hook]


def test_a_test_of_hooks_shows_each_answer_and_fails_if_one_refuses(
    hooked: Rotad, receiver: Receiver, rota: Rota
) -> None:
    good, bad = ({"webhook": receiver.url(path)} for path in ("/tested/200", "/tested/400"))
    hooked.create(name="tested", command="true", onFailure=[good], onSuccess=[bad])

    both = rota("hooks", "test", "tested", "--url", hooked.url)
    one = rota("hooks", "test", "tested", "--hook", "1", "--url", hooked.url)

    origin = receiver.url("")
    assert both.out.splitlines() == [
        f"1: failure to {origin}: accepted",
        f"2: success to {origin}: the receiver answered 400: no text in *** {{}}",
    ]
    assert (both.status, one.status) == (1, 0)
    assert [each.event["status"] for each in receiver.at("/tested/200")] == ["test", "test"]
    assert "webhook-signature" in receiver.at("/tested/200")[0].headers
    assert hooked.call("GET", "/api/v1/jobs/tested")["retryingHooks"] == []


def test_a_redirection_is_not_followed_and_a_receiver_that_is_gone_is_left_alone(
    hooked: Rotad, receiver: Receiver
) -> None:
    before = hooks_ended(hooked, "failed")
    hooks = [{"webhook": receiver.url(path)} for path in ("/moved/307-410", "/gone/410")]

    hooked.run(name="gone", command="true", onSuccess=hooks)
    hooked.wait_until(lambda: hooks_ended(hooked, "failed") == before + 2)

    assert len(receiver.at("/moved/307-410")) == 2
    assert len(receiver.at("/gone/410")) == 1
    assert not receiver.at("/redirected/200")


def test_a_late_execution_is_reported_while_it_runs(hooked: Rotad, receiver: Receiver) -> None:
    hook = {"webhook": receiver.url("/late/200")}
    hooked.create(name="slow", command="sleep 60", onLate=[hook], lateAfter="200ms")

    execution_id = hooked.trigger("slow")
    hooked.wait_until(lambda: bool(receiver.at("/late/200")))
    hooked.call("POST", f"/api/v1/executions/{execution_id}/cancel")

    (request,) = receiver.at("/late/200")
    assert (request.event["event"], request.event["status"]) == ("late", "running")


def test_a_hook_triggers_a_job_with_the_event(node: Rotad, tmp_path: Path) -> None:
    report = tmp_path / "report"
    node.create(
        name="notify", command=f"echo $ROTA_PARAMETERS > {report}.new; mv {report}.new {report}"
    )

    ended = node.run(name="watched", command="false", onFailure=[{"job": "notify"}])
    node.wait_until(lambda: report.exists() and report.read_text().endswith("}\n"))

    assert json.loads(report.read_text())["executionId"] == ended["executionId"]
    (execution,) = node.call("GET", "/api/v1/executions?jobId=default/notify")["items"]
    assert execution["trigger"] == "hook"


def test_a_webhook_to_the_own_machine_fails_where_the_setting_does_not_name_it(
    node: Rotad, receiver: Receiver
) -> None:
    before = hooks_ended(node, "failed")
    urls = [receiver.url("/own/200"), f"http://localhost:{receiver.port}/own/200"]

    node.run(name="own", command="false", onFailure=[{"webhook": url} for url in urls])
    node.wait_until(lambda: hooks_ended(node, "failed") == before + 2)

    assert not receiver.at("/own/200")


def test_a_hook_with_a_job_that_does_not_exist_gets_a_warning(node: Rotad) -> None:
    hooked = {"name": "early", "command": "true", "onSuccess": [{"job": "created-later"}]}

    first = node.create(**hooked)
    node.create(name="created-later", command="true")
    second = node.create(**hooked)

    (warning,) = first["warnings"]
    assert "onSuccess: the job default/created-later does not exist; create it" in warning
    assert second["warnings"] == []


def test_a_webhook_to_a_host_that_is_not_permitted_gets_a_warning(node: Rotad) -> None:
    saved = node.create(
        name="here", command="true", onLate=[{"webhook": "http://127.0.0.1/a"}], lateAfter="1h"
    )

    (warning,) = saved["warnings"]
    assert warning.startswith("onLate: the webhook is not sent: 127.0.0.1 is an address of this")


def test_hooks_are_given_by_flags_shown_and_refused_where_they_are_wrong(
    node: Rotad, rota: Rota
) -> None:
    made = rota(
        *("jobs", "create", "flags", "--on-failure", "https://hooks.example.com/a?t=1"),
        *("--on-recovery", "notify", "--on-late", "notify", "--late-after", "5m", "--", "true"),
    )
    assert made.status == 0, made.err

    shown = rota("jobs", "show", "flags")
    assert "onFailure https://hooks.example.com, onRecovery job notify" in shown.out
    document = rota("jobs", "show", "flags", "-o", "json").json["definition"]
    assert document["onFailure"] == [{"webhook": "https://hooks.example.com/a?t=1"}]
    assert document["onLate"] == [{"job": "notify"}]
    assert document["lateAfter"] == "5m"

    with pytest.raises(Refusal) as raised:
        node.create(name="wrong", command="true", onFailure=[{"webhook": "ftp://a"}, {}])
    pointers = [each["pointer"] for each in raised.value.problem["errors"]]
    assert pointers == ["/onFailure/0/webhook", "/onFailure/1"]
