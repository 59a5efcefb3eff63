"""Tries of a call: endpoints, pauses and errors, with time as an argument."""

import re

import pytest

from rota.client.errors import NodeFailed, RequestFailed, TooBusy, Unreachable
from rota.client.transport.call import Call, Response, failure_of
from rota.client.transport.endpoints import DOWN_S, Endpoints
from rota.client.transport.tries import (
    PAUSE_S,
    PAUSE_S_MAX,
    REFUSED_S,
    SILENT_S,
    STEADY_S,
    Reopening,
    Tries,
    Try,
    longest_s,
    pause_s,
)

EPSILON = 1e-6
"""Pauses are differences of sums, which are equal only within the precision of floats."""
A, B, C = "http://a", "http://b", "http://c"
READ = Call("GET", "/", bytes)
WRITE = Call("POST", "/", bytes, is_write=True, key="a-key")
FORGET = Call("DELETE", "/", bytes, is_write=True, is_repeatable=False)
REFUSED = Unreachable("no answer: refused", may_have_arrived=False)
NOT_LISTENING = Unreachable("no answer: refused", may_have_arrived=False, is_refused=True)
LOST = Unreachable("no answer: cut", may_have_arrived=True)


def endpoints(*urls: str) -> Endpoints:
    """Return endpoints in this order."""
    known = Endpoints(urls)
    for url in reversed(urls):
        known.worked(url)
    return known


def tries(
    call: Call[bytes], known: Endpoints, *, timeout_s: float = 30.0, repeats_max: int = 5
) -> Tries:
    return Tries(call, known, now=0.0, timeout_s=timeout_s, repeats_max=repeats_max)


def busy(retry_after: str = "", code: str = "busy") -> RequestFailed:
    body = b'{"type":"","title":"","status":503,"code":"%s","detail":"full"}' % code.encode()
    return failure_of(Response(503, body, retry_after))


def asked(of: Tries, failure: RequestFailed, now: float = 0.0) -> list[Try]:
    """Return all tries of a call that fails in the same way everywhere, and at once."""
    made = [of.first(now)]
    while True:
        try:
            made.append(of.after(made[-1], failure, now))
        except RequestFailed:
            return made
        now += made[-1].pause_s


# -- endpoints -------------------------------------------------------------------------------------


def test_the_order_of_endpoints_is_that_of_chance() -> None:
    firsts = {Endpoints((A, B)).first for _ in range(64)}

    assert firsts == {A, B}


def test_the_endpoint_that_worked_last_is_asked_first() -> None:
    known = endpoints(A, B, C)

    known.worked(B)

    assert known.ordered(0.0) == [B, A, C]


def test_an_endpoint_that_is_down_is_asked_last_and_after_a_while_in_its_turn() -> None:
    known = endpoints(A, B, C)

    known.failed(A, 0.0)
    known.failed(C, 1.0)

    assert known.ordered(1.0) == [B, A, C]
    assert known.ordered(DOWN_S) == [A, B, C]


def test_an_endpoint_that_answers_is_not_down() -> None:
    known = endpoints(A, B)
    known.failed(A, 0.0)

    known.worked(A)

    assert known.ordered(0.0) == [A, B]


# -- next tries ------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [REFUSED, busy(), failure_of(Response(502, b"<html>"))])
def test_another_endpoint_is_asked_at_once(failure: RequestFailed) -> None:
    call = tries(READ, endpoints(A, B))

    second = call.after(call.first(0.0), failure, 0.0)

    assert (second.url, second.pause_s) == (B, 0.0)


def test_every_endpoint_is_tried_before_one_is_tried_again() -> None:
    made = asked(tries(READ, endpoints(A, B, C), repeats_max=1), REFUSED)

    assert [each.url for each in made[:3]] == [A, B, C]
    assert sorted(each.url for each in made[3:]) == [A, B, C]


@pytest.mark.parametrize(("drawn", "part"), [(0, 1.0), (256, 0.75), (511, 0.5)])
def test_the_same_endpoint_is_tried_again_after_a_pause_that_doubles_up_to_a_limit(
    drawn: int, part: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(end: int) -> int:
        return min(drawn, end - 1)

    monkeypatch.setattr("rota.client.transport.tries.randbelow", draw)

    made = asked(tries(READ, endpoints(A), repeats_max=7), REFUSED)

    pauses = [each.pause_s for each in made[1:]]
    expected = [part * min(PAUSE_S * 2**number, PAUSE_S_MAX) for number in range(7)]
    # Each pause is the difference of two sums, so it is equal only within the precision of floats.
    assert pauses == pytest.approx(expected, rel=0.002)


def test_a_node_is_not_asked_again_before_the_time_that_it_named() -> None:
    call = tries(READ, endpoints(A, B))

    second = call.after(call.first(0.0), busy("9"), 0.0)
    third = call.after(second, REFUSED, 0.0)

    assert third.url == B
    assert third.pause_s <= PAUSE_S


def test_an_endpoint_without_an_answer_is_down_for_the_next_call_and_a_busy_one_is_not() -> None:
    known = endpoints(A, B)
    call = tries(READ, known)

    second = call.after(call.first(0.0), REFUSED, 0.0)
    call.after(second, busy(), 0.0)

    assert known.ordered(0.0) == [B, A]


@pytest.mark.parametrize("status", [400, 401, 404, 409, 412, 422, 500])
def test_a_request_that_a_node_has_answered_is_not_tried_elsewhere(status: int) -> None:
    known = endpoints(A, B)
    call = tries(READ, known)
    failure = failure_of(Response(status, b"{}"))

    with pytest.raises(type(failure)) as caught:
        call.after(call.first(0.0), failure, 0.0)

    assert caught.value is failure
    assert known.first == A


# -- requests that may have arrived ----------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [
        LOST,
        failure_of(Response(502, b"<html>")),
        failure_of(Response(503, b"<html>")),
        failure_of(Response(504, b"<html>")),
        busy(code="storage_unavailable"),
        busy(code="outcome_unknown"),
    ],
)
def test_a_request_that_may_have_arrived_is_tried_elsewhere_only_if_it_can_be_repeated(
    failure: RequestFailed,
) -> None:
    write, forget = tries(WRITE, endpoints(A, B)), tries(FORGET, endpoints(A, B))

    assert write.after(write.first(0.0), failure, 0.0).url == B
    with pytest.raises(Unreachable) as caught:
        forget.after(forget.first(0.0), failure, 0.0)
    assert caught.value.may_have_arrived


@pytest.mark.parametrize("failure", [REFUSED, busy()])
def test_a_request_that_has_not_arrived_is_always_tried_elsewhere(failure: RequestFailed) -> None:
    call = tries(FORGET, endpoints(A, B))

    assert call.after(call.first(0.0), failure, 0.0).url == B


def test_a_write_that_may_have_arrived_once_is_never_reported_as_refused() -> None:
    call = tries(WRITE, endpoints(A, B), repeats_max=0)

    second = call.after(call.first(0.0), LOST, 0.0)
    with pytest.raises(Unreachable) as caught:
        call.after(second, busy(), 0.0)

    assert caught.value.may_have_arrived
    assert caught.value.idempotency_key == "a-key"


# -- giving up -------------------------------------------------------------------------------------


def test_an_unknown_outcome_has_code_status_and_request_id_of_the_nodes_answer() -> None:
    body = (
        b'{"type":"","title":"","status":503,"code":"outcome_unknown","detail":"late",'
        b'"requestId":"r1"}'
    )
    failure = failure_of(Response(503, body))
    of = tries(WRITE, endpoints(A, B), repeats_max=0)

    second = of.after(of.first(0.0), LOST, 0.0)
    with pytest.raises(Unreachable) as caught:
        of.after(second, failure, 0.0)

    error = caught.value
    assert (error.code, error.problem.status, error.request_id) == ("outcome_unknown", 503, "r1")
    assert error.detail == f"no answer: cut; {B}: late"
    assert (error.may_have_arrived, error.idempotency_key) == (True, "a-key")


def test_a_body_that_was_too_slow_is_sent_again_even_if_the_call_cannot_be_repeated() -> None:
    body = b'{"type":"","title":"","status":408,"code":"body_too_slow","detail":"slow"}'
    failure = failure_of(Response(408, body))
    of = tries(FORGET, endpoints(A), repeats_max=1)

    assert isinstance(failure, TooBusy)
    assert of.after(of.first(0.0), failure, 0.0).url == A


def test_the_error_names_every_endpoint_that_was_asked() -> None:
    call = tries(READ, endpoints(A, B, C), repeats_max=0)
    refused = Unreachable(f"no answer from {A}: refused", may_have_arrived=False)

    second = call.after(call.first(0.0), refused, 0.0)
    third = call.after(second, busy(), 0.0)
    detail = re.escape(f"full ({B}); no answer from {A}: refused; {C}: HTTP status 502")
    with pytest.raises(TooBusy, match=detail):
        call.after(third, failure_of(Response(502, b"")), 0.0)


def test_the_error_is_a_nodes_refusal_even_if_others_did_not_answer() -> None:
    call = tries(WRITE, endpoints(A, B, C), repeats_max=0)
    refused = Unreachable(f"no answer from {A}: refused", may_have_arrived=False)

    second = call.after(call.first(0.0), refused, 0.0)
    third = call.after(second, busy("3", code="nodes_unreached"), 0.0)
    with pytest.raises(TooBusy) as caught:
        call.after(third, refused, 0.0)

    assert (caught.value.code, caught.value.retry_after_s) == ("nodes_unreached", 3.0)
    assert caught.value.detail.startswith("full ")


def test_the_error_has_the_shortest_retry_time_when_all_nodes_are_busy() -> None:
    call = tries(READ, endpoints(A, B), repeats_max=0)

    second = call.after(call.first(0.0), busy("9"), 0.0)
    with pytest.raises(TooBusy, match=re.escape(f"full ({A}, {B})")) as caught:
        call.after(second, busy("4"), 0.0)

    assert caught.value.retry_after_s == 4.0


def test_the_error_of_a_single_endpoint_is_unchanged() -> None:
    call = tries(READ, endpoints(A), repeats_max=0)
    failure = failure_of(Response(502, b"gateway"))

    with pytest.raises(NodeFailed) as caught:
        call.after(call.first(0.0), failure, 0.0)

    assert caught.value is failure


def test_a_call_is_given_up_at_its_deadline() -> None:
    call = tries(READ, endpoints(A), timeout_s=1.0)

    with pytest.raises(Unreachable):
        call.after(call.first(0.0), REFUSED, 1.0)


def test_each_endpoint_is_tried_again_as_often_as_asked_for() -> None:
    made = asked(tries(READ, endpoints(A, B), repeats_max=2), REFUSED)

    assert sorted(each.url for each in made) == [A] * 3 + [B] * 3


def test_a_machine_that_refuses_connections_is_asked_often_for_the_time_of_the_repetitions() -> (
    None
):
    made = asked(tries(READ, endpoints(A), repeats_max=5), NOT_LISTENING)

    pauses = [each.pause_s for each in made[1:]]
    assert all(REFUSED_S / 2 <= each <= REFUSED_S + EPSILON for each in pauses)
    assert longest_s(5) - 2 * REFUSED_S <= sum(pauses) <= longest_s(5) + EPSILON


def test_all_machines_that_refuse_connections_are_asked_in_turns() -> None:
    made = asked(tries(READ, endpoints(A, B), repeats_max=1), NOT_LISTENING)

    assert {each.url for each in made[2:4]} == {A, B}
    assert len(made) > 4


def test_a_refused_connection_is_not_repeated_by_a_client_that_repeats_nothing() -> None:
    assert len(asked(tries(READ, endpoints(A), repeats_max=0), NOT_LISTENING)) == 1


def test_a_node_that_listens_again_and_is_busy_is_asked_after_doubling_pauses() -> None:
    call = tries(READ, endpoints(A))
    made = [call.first(0.0)]
    for failure in (NOT_LISTENING, NOT_LISTENING, busy(), busy()):
        made.append(call.after(made[-1], failure, 0.0))

    assert made[3].pause_s > PAUSE_S / 2 >= REFUSED_S
    assert made[4].pause_s > PAUSE_S


# -- time of a try ---------------------------------------------------------------------------------


def test_a_silent_endpoint_is_left_early_only_if_there_is_another() -> None:
    alone, of_two = tries(READ, endpoints(A)), tries(READ, endpoints(A, B))

    assert alone.first(0.0).timeout_s == 30.0
    assert of_two.first(0.0).timeout_s == SILENT_S


def test_a_call_that_cannot_be_repeated_is_waited_for_to_its_end() -> None:
    assert tries(FORGET, endpoints(A, B)).first(0.0).timeout_s == 30.0


def test_a_silent_endpoint_leaves_time_for_another() -> None:
    call = tries(READ, endpoints(A, B), timeout_s=1.0)

    first = call.first(0.0)
    second = call.after(first, LOST, first.timeout_s)

    assert first.timeout_s == 0.5
    assert second.timeout_s == 0.5


def test_a_wait_is_not_taken_for_silence() -> None:
    call = Call("GET", "/", bytes, waits_s=10.0)

    assert tries(call, endpoints(A, B)).first(0.0).timeout_s == 10.0 + SILENT_S


# -- streams ---------------------------------------------------------------------------------------


def test_a_lost_stream_is_opened_again_at_once_and_then_after_pauses() -> None:
    reopening = Reopening(30.0)

    pauses = [reopening.pause_s(opened_at=0.0, now=0.0) for _ in range(3)]

    assert pauses[0] == 0.0
    assert all(pauses[1:])


def test_a_stream_without_anything_new_is_given_up() -> None:
    reopening = Reopening(30.0)
    reopening.pause_s(opened_at=0.0, now=0.0)

    assert reopening.pause_s(opened_at=29.0, now=29.0) is not None
    assert reopening.pause_s(opened_at=30.0, now=30.0) is None


@pytest.mark.parametrize(("has_news", "lasted_s"), [(True, 0.0), (False, STEADY_S)])
def test_news_or_a_lasting_connection_resets_the_pauses(has_news: bool, lasted_s: float) -> None:
    reopening = Reopening(30.0)
    reopening.pause_s(opened_at=0.0, now=0.0)

    if has_news:
        reopening.news()

    assert reopening.pause_s(opened_at=40.0, now=40.0 + lasted_s) == 0.0


def test_pauses_end_at_a_limit_however_often_it_failed() -> None:
    assert pause_s(10_000) <= PAUSE_S_MAX
