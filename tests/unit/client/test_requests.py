"""Division of large calls into requests, and the contents of requests."""

import json

import pytest

from rota.client import requests
from rota.client.errors import Invalid
from rota.client.requests import BATCH_BYTES_MAX
from rota.client.transport.call import Call
from rota.wire.documents import ITEMS_MAX, CreatedManyView, JobView, TriggerItem


def create_many(jobs: list[dict[str, object]]) -> list[Call[CreatedManyView]]:
    return list(requests.create_many(jobs, key="K", dry_run=False))


def names_in(call: Call[CreatedManyView]) -> list[object]:
    return [item["name"] for item in json.loads(call.body or b"")["items"]]


def test_jobs_are_cut_by_their_number_and_each_request_has_a_key_of_its_own() -> None:
    calls = create_many([{"name": number} for number in range(2 * ITEMS_MAX + 1)])

    assert [len(names_in(call)) for call in calls] == [ITEMS_MAX, ITEMS_MAX, 1]
    assert [call.key for call in calls] == ["K", "K/1000", "K/2000"]


def test_jobs_are_cut_by_their_bytes_and_one_that_is_too_large_goes_alone() -> None:
    sizes = [BATCH_BYTES_MAX // 2, BATCH_BYTES_MAX // 3, 2 * BATCH_BYTES_MAX, 10, 10]

    calls = create_many([{"name": n, "stdin": "x" * size} for n, size in enumerate(sizes)])

    assert [names_in(call) for call in calls] == [[0, 1], [2], [3, 4]]


def test_each_trigger_has_a_key_of_its_own_unless_it_was_given_one() -> None:
    items: list[TriggerItem | str] = [
        "a",
        TriggerItem(job="b"),
        TriggerItem(job="c", idempotency_key="mine"),
    ]

    [call] = requests.trigger_many(items, dry_run=False)

    keys = [item["idempotencyKey"] for item in json.loads(call.body or b"")["items"]]
    assert keys[2] == "mine"
    assert len(set(keys)) == 3
    assert all(keys)


def test_a_name_is_quoted_wherever_it_stands() -> None:
    assert requests.job("a/b?c#d", None).path == "/api/v1/jobs/a%2Fb%3Fc%23d"
    body = {"namespace": "a b", "name": "c/d"}
    put = requests.put_job(body, if_version=None, key=None, dry_run=False)
    assert put.path == "/api/v1/jobs/a%20b/c%2Fd"


def test_what_is_none_is_left_out_of_the_query_and_a_list_is_repeated() -> None:
    call = requests.jobs(
        namespace=None,
        q="x y",
        status=None,
        last_status=None,
        labels={"team": "a&b", "gpu": None},
        limit=5,
        cursor=None,
    )

    assert call.target == "/api/v1/jobs?q=x+y&label=team%3Da%26b&label=gpu&limit=5"


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_dry_run_may_always_be_repeated(dry_run: bool) -> None:
    call = requests.forget_node("a", dry_run=dry_run)

    assert call.is_repeatable == dry_run
    assert call.is_write != dry_run


def test_every_write_of_a_job_may_be_repeated_for_it_has_a_key_of_its_own() -> None:
    calls: list[Call[JobView] | Call[None]] = [
        write
        for _ in range(2)
        for write in (
            requests.put_job({"name": "a"}, if_version=3, key=None, dry_run=False),
            requests.patch_job("a", None, {}, if_version=3, key=None, dry_run=False),
            requests.delete_job("a", None, if_version=3, key=None, dry_run=False),
            requests.pause_job("a", None, "", key=None, dry_run=False),
            requests.resume_job("a", None, key=None, dry_run=False),
        )
    ]

    assert all(call.is_repeatable for call in calls)
    assert all(call.key for call in calls)
    assert len({call.key for call in calls}) == len(calls)
    assert calls[2].all_headers == {"If-Match": '"3"', "Idempotency-Key": calls[2].key}


def test_a_key_that_was_given_is_the_one_that_is_sent() -> None:
    call = requests.pause_job("a", None, "", key="mine", dry_run=False)

    assert call.all_headers["Idempotency-Key"] == "mine"


@pytest.mark.parametrize("stray", ["a\r\nX-Other: b", "\udcff"])
def test_what_no_header_can_have_is_refused_before_anything_is_sent(stray: str) -> None:
    with pytest.raises(Invalid, match="Idempotency-Key"):
        requests.create_job({}, key=stray, traceparent=None, dry_run=False)
    with pytest.raises(Invalid, match="traceparent"):
        requests.create_job({}, key="k", traceparent=stray, dry_run=False)


def test_a_name_with_stray_bytes_is_one_that_nothing_has() -> None:
    call = requests.ledger(
        "\udcff",
        namespace="\udcff",
        since=None,
        until=None,
        newest_first=False,
        limit=1,
        cursor=None,
    )

    assert call.target == "/api/v1/jobs/%3F/ledger?namespace=%3F&limit=1"
