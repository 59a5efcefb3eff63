"""Suggestions of similar names: how many mistakes they may have, and the limits of the search."""

import pytest

from rota.core.near_names import COMPARED_MAX, did_you_mean, near_names


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("nihgtly", "nightly"),
        ("nighly", "nightly"),
        ("nighttly", "nightly"),
        ("nightlx", "nightly"),
        ("ightly", "nightly"),
        ("nighlty-reprot", "nightly-report"),
        ("daily_report", "daily-report"),
        ("abx", "abc"),
    ],
)
def test_a_name_with_one_or_two_mistakes_is_suggested(given: str, meant: str) -> None:
    assert near_names(given, ["backup", meant, "cleanup"]) == [meant]


@pytest.mark.parametrize(
    ("given", "existing"),
    [
        ("nightly", "nightly"),
        ("nihgtyl-reprot", "nightly-report"),
        ("ax", "ay"),
        ("ab-cd", "xb-cy"),
        ("report", "reports-of-all"),
        ("", "a"),
        ("thumbnails", "backup"),
    ],
)
def test_other_names_are_not_suggested(given: str, existing: str) -> None:
    assert did_you_mean(given, [existing]) == ""


def test_the_most_similar_names_come_first_and_three_are_suggested() -> None:
    existing = ["report-xx", "report-1x", "report-11", "report-22"]

    hint = did_you_mean("report-1", existing, prefix="team-a/")

    assert hint == "did you mean 'team-a/report-11' or 'team-a/report-1x' or 'team-a/report-22'?"


def test_the_search_ends_after_the_most_comparisons() -> None:
    others = (f"nightly-{number:05}" for number in range(10 * COMPARED_MAX))

    assert near_names("nightly-xxxxx", others) == []
    assert next(others) == f"nightly-{COMPARED_MAX:05}"
