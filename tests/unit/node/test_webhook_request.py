"""Requests of webhooks: their bodies, ids and signatures, and the hosts that they may go to."""

import base64
import hashlib
import hmac
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from rota.core.model.hook import HookEvent, HookFormat, Notification
from rota.core.model.ids import ExecutionId, JobId
from rota.core.timing.instants import SECOND, Instant
from rota.node.system.webhook_keys import read_webhook_keys
from rota.node.webhooks.permitted_hosts import PermittedHosts
from rota.node.webhooks.webhook_request import request_of, shown, signature_of

NOTIFICATION = Notification(
    key="740e000000000001-06643d3aa5f000-0000.failure.0",
    job_id=JobId("740e000000000001"),
    job="default/job",
    execution_id=ExecutionId("740e000000000001-06643d3aa5f000-0000"),
    event=HookEvent.FAILURE,
    at=Instant(1_800_000_000 * SECOND),
    url="https://hooks.example.com/a",
    document='{"event":"failure","reason":"caf\\u00e9"}',
)
NOW = Instant(1_800_000_005 * SECOND + 1)


def test_the_body_is_an_event_of_standard_webhooks() -> None:
    request = request_of(NOTIFICATION, (), now=NOW)

    assert json.loads(request.body) == {
        "type": "job.failure",
        "timestamp": "2027-01-15T08:00:00.000000Z",
        "data": {"event": "failure", "reason": "café"},
    }
    assert request.url == NOTIFICATION.url
    assert request.headers["webhook-id"] == NOTIFICATION.key
    assert request.headers["webhook-timestamp"] == "1800000005"
    assert "webhook-signature" not in request.headers


def test_the_body_has_the_format_of_the_hook() -> None:
    document = (
        '{"event":"failure","job":"default/job","jobId":"j","executionId":"e","status":"failed",'
        '"trigger":"manual","fireTime":"2027-01-15T08:00:00Z"}'
    )
    notification = replace(NOTIFICATION, format=HookFormat.SLACK, document=document)

    body = request_of(notification, (), now=NOW).body

    assert json.loads(body) == {"text": "Job default/job failed\nExecution e: failed"}


def test_each_key_signs_id_timestamp_and_body() -> None:
    keys = (b"k" * 24, b"l" * 32)

    request = request_of(NOTIFICATION, keys, now=NOW)

    signed = NOTIFICATION.key.encode() + b".1800000005." + request.body
    expected = [
        "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        for key in keys
    ]
    assert request.headers["webhook-signature"].split() == expected


def test_the_signature_is_that_of_the_published_example() -> None:
    # https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
    key = base64.b64decode("C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
    body = b'{"email":"test@example.com","username":"test_user"}'

    signature = signature_of(key, "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", 1_649_367_553, body)

    assert signature == "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="


# -- keys -----------------------------------------------------------------------------------------


def written(folder: Path, text: str) -> Path:
    """Return a file with *text*."""
    file = folder / "keys"
    file.write_text(text)
    return file


def line(size: int) -> str:
    """Return a key of *size* bytes as a line."""
    return f"whsec_{base64.b64encode(b'x' * size).decode()}\n"


@pytest.mark.parametrize("sizes", [(24,), (64,), (32, 32), (24, 24, 24, 24)])
def test_a_file_has_one_to_four_keys(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    file = written(tmp_path, "\n".join(line(size) for size in sizes))

    assert read_webhook_keys(file) == tuple(b"x" * size for size in sizes)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "has 0 keys; 1 to 4 are needed"),
        (line(32) * 5, "has 5 keys"),
        (line(23), "is not whsec_ and 24 to 64 bytes in base64"),
        (line(65), "is not whsec_"),
        (line(32).removeprefix("whsec_"), "key 1 of"),
        (line(32) + "whsec_!secret!\n", "key 2 of"),
        ("whsec_é", "is not text in ASCII"),
    ],
)
def test_another_file_is_refused_without_its_content(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault) as raised:
        read_webhook_keys(written(tmp_path, text))

    assert "secret" not in str(raised.value)
    assert "eHh4" not in str(raised.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_webhook_keys(tmp_path / "keys")


# -- hosts ----------------------------------------------------------------------------------------

OWN = (
    "127.0.0.1",
    "127.8.9.1",
    "[::1]",
    "0.0.0.0",
    "::",
    "169.254.169.254",
    "fe80::1",
    "224.0.0.1",
)
MAPPED = (
    *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1"),
    *("64:ff9b::169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::", "2002:a9fe:a9fe::1"),
)
CLOUDS = ("fd00:ec2::254", "100.100.100.200", "::ffff:168.63.129.16")


@pytest.mark.parametrize("address", [*OWN, *MAPPED])
def test_addresses_of_the_machine_and_its_links_are_not_permitted(address: str) -> None:
    hosts = PermittedHosts()

    assert "is an address of this machine or link" in hosts.fault_of(address)
    found = hosts.fault_of_addresses("evil.example", ["192.0.2.1", address.strip("[]")])
    assert "is an address of this machine or link" in found


@pytest.mark.parametrize("address", CLOUDS)
def test_services_of_clouds_for_their_machines_are_not_permitted(address: str) -> None:
    hosts = PermittedHosts()

    assert "is the service of a cloud" in hosts.fault_of(address)
    assert "is the service of a cloud" in hosts.fault_of_addresses("evil.example", [address])


@pytest.mark.parametrize(
    "address", ["192.0.2.1", "10.1.2.3", "2001:db8::1", "64:ff9b::192.0.2.1", "2002:c000:201::1"]
)
def test_other_addresses_are_permitted(address: str) -> None:
    assert PermittedHosts().fault_of(address) == ""
    assert PermittedHosts().fault_of_addresses("hooks.example", [address]) == ""


@pytest.mark.parametrize(
    ("names", "host", "is_permitted"),
    [
        (("hooks.example.org",), "hooks.example.org", True),
        (("hooks.example.org",), "HOOKS.example.org.", True),
        (("hooks.example.org",), "xhooks.example.org", False),
        (("*.example.org",), "a.b.example.org", True),
        (("*.example.org",), "example.org", False),
        (("*.example.org",), "evilexample.org", False),
        (("127.0.0.1",), "127.0.0.1", True),
        (("127.0.0.1",), "192.0.2.1", False),
        (("*",), "169.254.169.254", True),
    ],
)
def test_a_list_of_hosts_permits_those_alone(
    names: tuple[str, ...], host: str, is_permitted: bool
) -> None:
    assert (PermittedHosts(names).fault_of(host) == "") is is_permitted


def test_a_host_of_the_list_may_have_an_address_of_the_machine() -> None:
    assert PermittedHosts(("localhost",)).fault_of_addresses("localhost", ["127.0.0.1"]) == ""


def test_an_answer_is_shown_on_one_line_without_the_secrets_of_its_url() -> None:
    url = "https://h.example/services/T0001/abcdefgh?token=s3cr3t-word"
    answer = "no\nhook\x1b[31m at /services/T0001/abcdefgh (abcdefgh,\ts3cr3t-word) " + "x" * 300

    line = shown(answer, url)

    assert line.startswith("no hook [31m at /***/T0001/*** (***, ***) xx")
    assert len(line) == 200
