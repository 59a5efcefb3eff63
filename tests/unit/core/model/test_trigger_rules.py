"""Trigger rules: the verdict of each on every combination of needed tasks."""

from itertools import product

import pytest

from rota.core.model.trigger_rules import (
    EARLY,
    RULES,
    TriggerRule,
    TriggerVerdict,
    UpstreamState,
    census_of,
    verdict,
)

OPEN, SUCCESS, FAILED, UPSTREAM, SKIPPED, CANCELLED = UpstreamState
WAIT, START, SKIP, SKIP_FAILED = TriggerVerdict
R = TriggerRule

# One column for each of: one success; one failure; one skip; both of success and failure; both of
# success and skip; both of failure and skip; a success, a failure and an open task.
# s starts, k skips, f skips as upstream_failed, . waits.
TABLE = {
    #                              S    F    U    K    SF   SK   FK   S.   F.   K.
    R.ALL_SUCCESS: "                s    f    f    k    f    k    f    .    f    k",
    R.ALL_FAILED: "                 k    s    s    k    k    k    k    k    .    k",
    R.ALL_DONE: "                   s    s    s    s    s    s    s    .    .    .",
    R.ALL_DONE_MIN_ONE_SUCCESS: "   s    f    f    k    s    s    f    .    .    .",
    R.ONE_SUCCESS: "                s    f    f    k    s    s    f    s    .    .",
    R.ONE_FAILED: "                 k    s    s    k    s    k    s    .    s    .",
    R.ONE_DONE: "                   s    s    k    k    s    s    s    s    s    .",
    R.NONE_FAILED: "                s    f    f    s    f    s    f    .    f    .",
    R.NONE_FAILED_MIN_ONE_SUCCESS: "s    f    f    k    f    s    f    .    f    .",
    R.NONE_SKIPPED: "               s    s    s    k    s    k    k    .    .    k",
    R.ALL_SKIPPED: "                k    k    k    s    k    k    k    k    k    .",
    R.ALWAYS: "                     s    s    s    s    s    s    s    s    s    s",
}
COLUMNS = (
    (SUCCESS,),
    (FAILED,),
    (UPSTREAM,),
    (SKIPPED,),
    (SUCCESS, FAILED),
    (SUCCESS, SKIPPED),
    (FAILED, SKIPPED),
    (SUCCESS, OPEN),
    (FAILED, OPEN),
    (SKIPPED, OPEN),
)
MARKS = {".": WAIT, "s": START, "k": SKIP, "f": SKIP_FAILED}


@pytest.mark.parametrize("rule", TriggerRule)
def test_the_verdicts_of_a_rule(rule: TriggerRule) -> None:
    expected = [MARKS[mark] for mark in TABLE[rule].split()]

    found = [verdict(rule, census_of(needs)) for needs in COLUMNS]

    assert found == expected


def airflow(rule: TriggerRule, needs: tuple[UpstreamState, ...]) -> bool:
    """Return True if a task starts when all that it needs has ended, as Airflow's docs define it.

    Each definition is written over the list of states, without counts.
    """
    failures = {FAILED, UPSTREAM}
    definitions = {
        R.ALL_SUCCESS: all(each is SUCCESS for each in needs),
        R.ALL_FAILED: all(each in failures for each in needs),
        R.ALL_DONE: True,
        R.ALL_DONE_MIN_ONE_SUCCESS: SUCCESS in needs,
        R.ONE_SUCCESS: SUCCESS in needs,
        R.ONE_FAILED: any(each in failures for each in needs),
        R.ONE_DONE: SUCCESS in needs or FAILED in needs,
        R.NONE_FAILED: not any(each in failures for each in needs),
        R.NONE_FAILED_MIN_ONE_SUCCESS: (
            SUCCESS in needs and not any(each in failures for each in needs)
        ),
        R.NONE_SKIPPED: SKIPPED not in needs,
        R.ALL_SKIPPED: all(each is SKIPPED for each in needs),
        R.ALWAYS: True,
    }
    return definitions[rule]


@pytest.mark.parametrize("rule", TriggerRule)
def test_a_rule_of_ended_tasks_starts_as_defined_by_airflow(rule: TriggerRule) -> None:
    ended = [
        needs
        for count in range(1, 5)
        for needs in product((SUCCESS, FAILED, UPSTREAM, SKIPPED), repeat=count)
    ]

    differing = [
        needs
        for needs in ended
        if (verdict(rule, census_of(needs)) is START) != airflow(rule, needs)
    ]

    assert differing == []
    assert set(RULES) == set(TriggerRule)


@pytest.mark.parametrize("rule", TriggerRule)
def test_a_rule_waits_only_for_open_tasks(rule: TriggerRule) -> None:
    """A task may never wait for tasks that are all closed: nothing would come to it again."""
    closed = [standing for standing in UpstreamState if standing is not OPEN]

    stuck = [
        needs for needs in product(closed, repeat=4) if verdict(rule, census_of(needs)) is WAIT
    ]

    assert stuck == []


@pytest.mark.parametrize("rule", TriggerRule)
def test_a_verdict_stays_when_open_tasks_end(rule: TriggerRule) -> None:
    """A task that was started or skipped early would be treated alike at the end of all tasks.

    An exception are skips of tasks by ``all_success``, which a later failure would turn into
    ``upstream_failed``, as in Airflow: the tasks that need it are decided by then.
    """
    closed = [standing for standing in UpstreamState if standing is not OPEN]
    changed: list[tuple[UpstreamState, ...]] = []
    for ended, last in product(product(closed, repeat=2), closed):
        early = verdict(rule, census_of((*ended, OPEN)))
        late = verdict(rule, census_of((*ended, last)))
        if early is not WAIT and (early is START) != (late is START):
            changed.append((*ended, last))

    assert changed == []


@pytest.mark.parametrize("rule", TriggerRule)
def test_only_early_rules_start_before_all_tasks_have_ended(rule: TriggerRule) -> None:
    states = [each for each in UpstreamState if each is not OPEN]

    starts = any(
        verdict(rule, census_of((*ended, OPEN))) is START for ended in product(states, repeat=2)
    )

    assert starts == (rule in EARLY)


@pytest.mark.parametrize("closed", [each for each in UpstreamState if each is not OPEN])
def test_a_census_is_updated_with_closed_tasks(closed: UpstreamState) -> None:
    before = census_of([OPEN, OPEN, SUCCESS, FAILED])

    assert before.after(closed) == census_of([OPEN, closed, SUCCESS, FAILED])
