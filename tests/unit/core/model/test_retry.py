"""Times of retries after a failure."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.model.attempt import Ending, Outcome, Raised
from rota.core.model.retry import (
    DELAY_MAX,
    Explicit,
    Exponential,
    Fixed,
    Linear,
    RetryPolicy,
    causes_of,
    next_attempt_at,
)
from rota.core.timing.instants import MINUTE, SECOND, Duration, Instant

OUT_OF_STOCK = Raised(
    type="shop.errors.OutOfStock", bases=("shop.errors.ShopError", "LookupError", "Exception")
)
ENDED_AT = Instant(1_000_000_000)
HALF = 1 << 19
"""Entropy that draws half of the jitter."""


def delays(policy: RetryPolicy, count: int, entropy: int = 0) -> list[float | None]:
    """Return the delays in seconds after the first *count* failures."""
    found: list[float | None] = []
    for failures in range(1, count + 1):
        again = next_attempt_at(policy, failures, exit_code=1, ended_at=ENDED_AT, entropy=entropy)
        found.append(None if again is None else (again - ENDED_AT) / SECOND)
    return found


def may_retry_after(policy: RetryPolicy, raised: Raised | None, exit_code: int = -1) -> bool:
    again = next_attempt_at(
        policy, 1, exit_code=exit_code, raised=raised, ended_at=ENDED_AT, entropy=0
    )
    return again is not None


def may_retry(policy: RetryPolicy, exit_code: int) -> bool:
    return next_attempt_at(policy, 1, exit_code=exit_code, ended_at=ENDED_AT, entropy=0) is not None


def test_without_a_policy_there_is_one_attempt() -> None:
    assert delays(RetryPolicy(), 1) == [None]


def test_a_fixed_delay_is_the_same_until_the_limit() -> None:
    policy = RetryPolicy(limit=3, backoff=Fixed(delay=Duration(5 * SECOND)))

    assert delays(policy, 4) == [5, 5, 5, None]


def test_an_exponential_delay_grows_up_to_its_bound() -> None:
    policy = RetryPolicy(
        limit=10, backoff=Exponential(first=SECOND, factor=3, delay_max=Duration(20 * SECOND))
    )

    assert delays(policy, 5) == [1, 3, 9, 20, 20]


def test_an_exponential_delay_stays_bounded_after_a_thousand_failures() -> None:
    policy = RetryPolicy(limit=1_000, backoff=Exponential(factor=1_000, delay_max=DELAY_MAX))

    again = next_attempt_at(policy, 1_000, exit_code=1, ended_at=ENDED_AT, entropy=0)

    assert again == ENDED_AT + DELAY_MAX


def test_the_last_of_a_list_of_delays_repeats() -> None:
    listed = Explicit(delays=(SECOND, Duration(10 * SECOND), MINUTE))

    assert delays(RetryPolicy(limit=5, backoff=listed), 6) == [1, 10, 60, 60, 60, None]


def test_jitter_lengthens_by_a_share_of_the_delay() -> None:
    policy = RetryPolicy(limit=1, backoff=Fixed(delay=Duration(10 * SECOND)), jitter=0.5)

    assert delays(policy, 1, entropy=0) == [10]
    assert delays(policy, 1, entropy=HALF) == [12.5]


def test_only_the_named_exit_codes_are_retried() -> None:
    policy = RetryPolicy(limit=1, on_exit_codes=(75, 111))

    assert [code for code in (-1, 0, 1, 75, 111) if may_retry(policy, code)] == [75, 111]


def test_an_exit_code_named_never_beats_the_others() -> None:
    policy = RetryPolicy(limit=1, on_exit_codes=(1, 2), never_on_exit_codes=(2, 3))

    assert [code for code in (1, 2, 3, 4) if may_retry(policy, code)] == [1]


@pytest.mark.parametrize("exit_code", [-1, 1, 255])
def test_any_failure_is_retried_unless_codes_are_named(exit_code: int) -> None:
    assert may_retry(RetryPolicy(limit=1), exit_code)


@pytest.mark.parametrize(
    ("name", "is_meant"),
    [
        ("shop.errors.OutOfStock", True),
        ("OutOfStock", True),
        ("ShopError", True),
        ("shop.errors.ShopError", True),
        ("LookupError", True),
        ("errors.OutOfStock", False),
        ("other.OutOfStock", False),
        ("Stock", False),
        ("ValueError", False),
    ],
)
def test_an_exception_is_named_by_its_class_or_one_of_its_bases(name: str, is_meant: bool) -> None:
    only, never = (
        RetryPolicy(limit=1, on_exceptions=(name,)),
        RetryPolicy(limit=1, never_on_exceptions=(name,)),
    )

    assert may_retry_after(only, OUT_OF_STOCK) is is_meant
    assert may_retry_after(never, OUT_OF_STOCK) is not is_meant


def test_an_exception_named_never_beats_the_others() -> None:
    policy = RetryPolicy(
        limit=1, on_exceptions=("LookupError",), never_on_exceptions=("OutOfStock",)
    )

    assert not may_retry_after(policy, OUT_OF_STOCK)
    assert may_retry_after(policy, Raised(type="KeyError", bases=("LookupError",)))


def test_a_failure_without_an_exception_is_none_of_those_named() -> None:
    assert not may_retry_after(RetryPolicy(limit=1, on_exceptions=("OSError",)), None)
    assert may_retry_after(RetryPolicy(limit=1, never_on_exceptions=("OSError",)), None)


def test_codes_and_exceptions_named_together_each_allow_a_retry() -> None:
    policy = RetryPolicy(limit=1, on_exit_codes=(75,), on_exceptions=("LookupError",))

    assert may_retry_after(policy, None, exit_code=75)
    assert may_retry_after(policy, OUT_OF_STOCK)
    assert not may_retry_after(policy, Raised(type="ValueError"), exit_code=1)


@given(
    first=st.integers(0, DELAY_MAX),
    factor=st.floats(1, 1_000),
    most=st.integers(0, DELAY_MAX),
    jitter=st.floats(0, 1),
    failures=st.integers(1, 1_000),
    entropy=st.integers(0, 2**64 - 1),
)
@settings(max_examples=200, deadline=None)
def test_no_delay_is_negative_or_longer_than_its_bound_and_jitter(
    *, first: int, factor: float, most: int, jitter: float, failures: int, entropy: int
) -> None:
    backoff = Exponential(first=Duration(first), factor=factor, delay_max=Duration(most))
    policy = RetryPolicy(limit=1_000, backoff=backoff, jitter=jitter)

    again = next_attempt_at(policy, failures, exit_code=1, ended_at=ENDED_AT, entropy=entropy)

    assert again is not None
    assert ENDED_AT <= again <= ENDED_AT + most * (1 + jitter)


def test_a_linear_delay_grows_by_its_step_up_to_its_bound() -> None:
    policy = RetryPolicy(
        limit=5, backoff=Linear(step=Duration(10 * SECOND), delay_max=Duration(25 * SECOND))
    )

    assert delays(policy, 6) == [10, 20, 25, 25, 25, None]


@pytest.mark.parametrize(("elapsed_s", "is_retried"), [(0, True), (50, True), (51, False)])
def test_no_retry_begins_after_the_longest_time(elapsed_s: int, is_retried: bool) -> None:
    policy = RetryPolicy(limit=9, backoff=Fixed(delay=Duration(10 * SECOND)), elapsed_max=MINUTE)
    elapsed = Duration(elapsed_s * SECOND)

    again = next_attempt_at(policy, 1, exit_code=1, elapsed=elapsed, ended_at=ENDED_AT, entropy=0)

    assert (again is not None) is is_retried


def ending(outcome: Outcome = Outcome.FAILED, **fields: Any) -> Ending:
    return Ending(outcome=outcome, started_at=ENDED_AT, finished_at=ENDED_AT, **fields)


@pytest.mark.parametrize(
    ("end", "causes"),
    [
        (ending(exit_code=1), set[str]()),
        (ending(signal=9), {"SIGKILL"}),
        (ending(Outcome.TIMED_OUT, signal=15), {"timeout"}),
        (ending(signal=9, is_out_of_memory=True), {"out_of_memory"}),
    ],
)
def test_an_attempt_without_an_exit_code_has_a_cause(end: Ending, causes: set[str]) -> None:
    assert causes_of(end) == causes


@pytest.mark.parametrize(
    ("fields", "causes", "is_retried"),
    [
        ({"on_causes": ("timeout",)}, {"timeout"}, True),
        ({"on_causes": ("timeout",)}, {"SIGKILL"}, False),
        ({"on_causes": ("timeout",)}, set[str](), False),
        ({"on_causes": ("timeout",), "on_exit_codes": (1,)}, set[str](), True),
        ({"never_on_causes": ("out_of_memory",)}, {"out_of_memory"}, False),
        ({"never_on_causes": ("out_of_memory",)}, {"SIGKILL"}, True),
    ],
)
def test_only_the_named_causes_are_retried(
    fields: dict[str, Any], causes: set[str], is_retried: bool
) -> None:
    policy = RetryPolicy(limit=1, **fields)

    again = next_attempt_at(
        policy, 1, exit_code=1, causes=frozenset(causes), ended_at=ENDED_AT, entropy=0
    )

    assert (again is not None) is is_retried
