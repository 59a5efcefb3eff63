"""The rate of the requests of each principal."""

import pytest

from rota.core.timing.instants import SECOND, Instant
from rota.node.access.request_rates import PRINCIPALS_MAX, RequestRates, TooManyRequests

NOW = Instant(1_000 * SECOND)


def sent(rates: RequestRates, count: int, at: Instant = NOW, name: str = "ci") -> int:
    """Return how many of *count* requests were accepted."""
    accepted = 0
    for _ in range(count):
        try:
            rates.count(name, at)
        except TooManyRequests:
            continue
        accepted += 1
    return accepted


def test_a_second_of_requests_may_come_at_once() -> None:
    assert sent(RequestRates(5), 8) == 5


def test_requests_at_the_rate_are_all_accepted() -> None:
    rates = RequestRates(10)

    assert sum(sent(rates, 1, Instant(NOW + n * SECOND // 10)) for n in range(100)) == 100


def test_time_gives_requests_back_up_to_one_second_of_them() -> None:
    rates = RequestRates(4)
    sent(rates, 4)

    assert sent(rates, 4, Instant(NOW + SECOND // 2)) == 2
    assert sent(rates, 9, Instant(NOW + 60 * SECOND)) == 4


def test_refused_requests_do_not_delay_the_next_accepted_one() -> None:
    rates = RequestRates(2)
    sent(rates, 50)

    assert sent(rates, 1, Instant(NOW + SECOND // 2)) == 1


def test_principals_do_not_share_a_rate() -> None:
    rates = RequestRates(3)
    sent(rates, 10)

    assert sent(rates, 10, name="alice") == 3


def test_the_refusal_names_the_principal_the_rate_and_the_wait() -> None:
    rates = RequestRates(2)
    sent(rates, 2)

    with pytest.raises(TooManyRequests, match=r"'ci' sends more than 2 requests a second") as info:
        rates.count("ci", NOW)
    assert info.value.retry_after_s == 1


def test_no_more_than_a_fixed_number_of_principals_is_kept() -> None:
    rates = RequestRates(1)
    for number in range(PRINCIPALS_MAX + 10):
        rates.count(f"p{number}", NOW)

    assert rates.principal_count == PRINCIPALS_MAX
    assert sent(rates, 1, name=f"p{PRINCIPALS_MAX}") == 0
