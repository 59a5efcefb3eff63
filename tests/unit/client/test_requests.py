"""Division of large calls into requests, and the contents of requests."""

import json

import pytest

from rota.client import requests
from rota.client.errors import Invalid
from rota.client.requests import BATCH_BYTES_MAX, call, label_texts
from rota.client.transport.call import Call, Query
from rota.wire import operations
from rota.wire.documents import ITEMS_MAX, CreatedManyView, JobView, TriggerItem


def create_many(jobs: list[dict[str, object]]) -> list[Call[CreatedManyView]]:
    return list(requests.create_many(jobs, key="K", dry_run=False))


def names_in(part: Call[CreatedManyView]) -> list[object]:
    return [item["name"] for item in json.loads(part.body or b"")["items"]]


def test_jobs_are_cut_by_their_number_and_each_request_has_a_key_of_its_own() -> None:
    calls = create_many([{"name": number} for number in range(2 * ITEMS_MAX + 1)])

    assert [len(names_in(each)) for each in calls] == [ITEMS_MAX, ITEMS_MAX, 1]
    assert [each.key for each in calls] == ["K", "K/1000", "K/2000"]


def test_jobs_are_cut_by_their_bytes_and_one_that_is_too_large_goes_alone() -> None:
    sizes = [BATCH_BYTES_MAX // 2, BATCH_BYTES_MAX // 3, 2 * BATCH_BYTES_MAX, 10, 10]

    calls = create_many([{"name": n, "stdin": "x" * size} for n, size in enumerate(sizes)])

    assert [names_in(each) for each in calls] == [[0, 1], [2], [3, 4]]


def test_each_trigger_has_a_key_of_its_own_unless_it_was_given_one() -> None:
    items: list[TriggerItem | str] = [
        "a",
        TriggerItem(job="b"),
        TriggerItem(job="c", idempotency_key="mine"),
    ]

    [made] = requests.trigger_many(items, dry_run=False)

    keys = [item["idempotencyKey"] for item in json.loads(made.body or b"")["items"]]
    assert keys[2] == "mine"
    assert len(set(keys)) == 3
    assert all(keys)


def test_a_name_is_quoted_wherever_it_stands() -> None:
    assert call(operations.GET_JOB, "a/b?c#d").path == "/api/v1/jobs/a%2Fb%3Fc%23d"
    body = {"namespace": "a b", "name": "c/d"}
    put = requests.put_job(body, if_version=None, key=None, dry_run=False)
    assert put.path == "/api/v1/jobs/a%20b%2Fc%2Fd"


def test_what_is_none_is_left_out_of_the_query_and_a_list_is_repeated() -> None:
    query: Query = {
        "q": "x y",
        "status": None,
        "label": label_texts({"team": "a&b", "gpu": None}),
        "limit": 5,
    }

    made = call(operations.LIST_JOBS, query=query)

    assert made.target == "/api/v1/jobs?q=x+y&label=team%3Da%26b&label=gpu&limit=5"


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_dry_run_may_always_be_repeated(dry_run: bool) -> None:
    made = call(operations.FORGET_NODE, "a", dry_run=dry_run)

    assert made.is_repeatable == dry_run
    assert made.is_write != dry_run


def test_every_write_of_a_job_may_be_repeated_for_it_has_a_key_of_its_own() -> None:
    calls: list[Call[JobView] | Call[None]] = [
        write
        for _ in range(2)
        for write in (
            requests.put_job({"name": "a"}, if_version=3, key=None, dry_run=False),
            call(operations.PATCH_JOB, "a", body={}, if_version=3),
            call(operations.DELETE_JOB, "a", if_version=3),
            call(operations.PAUSE_JOB, "a", body={}),
            call(operations.RESUME_JOB, "a"),
        )
    ]

    assert all(each.is_repeatable for each in calls)
    assert all(each.key for each in calls)
    assert len({each.key for each in calls}) == len(calls)
    assert calls[2].all_headers == {"If-Match": '"3"', "Idempotency-Key": calls[2].key}


def test_a_key_that_was_given_is_the_one_that_is_sent() -> None:
    made = call(operations.PAUSE_JOB, "a", key="mine")

    assert made.all_headers["Idempotency-Key"] == "mine"


@pytest.mark.parametrize("stray", ["a\r\nX-Other: b", "\udcff"])
def test_what_no_header_can_have_is_refused_before_anything_is_sent(stray: str) -> None:
    with pytest.raises(Invalid, match="Idempotency-Key"):
        call(operations.CREATE_JOB, body={}, key=stray)
    with pytest.raises(Invalid, match="traceparent"):
        call(operations.CREATE_JOB, body={}, key="k", headers={"traceparent": stray})


def test_a_name_with_stray_bytes_is_one_that_nothing_has() -> None:
    made = call(operations.LEDGER, "\udcff", namespace="\udcff", query={"limit": 1})

    assert made.target == "/api/v1/jobs/%3F/ledger?namespace=%3F&limit=1"
