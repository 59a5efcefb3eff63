"""The limit on searches for similar names."""

from rota.core.timing.instants import SECOND, Instant
from rota.node.system.suggestion_budget import SEARCHES_MAX, SuggestionBudget


def test_a_second_has_a_limited_number_of_searches() -> None:
    budget = SuggestionBudget()

    first = [budget.take(Instant(5 * SECOND)) for _ in range(SEARCHES_MAX + 1)]
    last = budget.take(Instant(6 * SECOND - 1))
    following = budget.take(Instant(6 * SECOND))

    assert first == [True] * SEARCHES_MAX + [False]
    assert (last, following) == (False, True)
