"""Tables that fit a terminal."""

import pytest

from rota.client.cli.display.table_widths import LEAST, fitted, with_short_names

EXECUTIONS = ("EXECUTION", "JOB", "STATUS", "TRIGGER", "FIRE TIME", "LATE", "TOOK", "REASON")
CHANGES = ("TIME (UTC)", "BY", "CHANGE", "OBJECT", "EXECUTION", "VERSION", "DETAIL")
MEMBERS = ("NODE", "STATE", "ZONE", "PRIMARY", "BACKUP", "RUNNING", "SLOTS", "WAITING", "ADDRESS")
ATTEMPTS = ("TASK", "STATUS", "ATTEMPT", "OUTCOME", "STARTED", "TOOK", "CPU", "MEMORY", "REASON")
JOBS = ("JOB", "STATUS", "SCHEDULE", "NEXT", "LAST", "TASKS")


def total(widths: list[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def test_a_table_that_fits_is_unchanged() -> None:
    assert fitted(("JOB", "STATUS"), (30, 9), 80) == ([0, 1], [30, 9])


@pytest.mark.parametrize(
    ("titles", "widths"),
    [
        pytest.param(EXECUTIONS, (36, 60, 9, 9, 11, 5, 6, 90), id="executions"),
        pytest.param(CHANGES, (19, 40, 22, 60, 36, 7, 90), id="changes"),
        pytest.param(MEMBERS, (40, 8, 20, 7, 6, 7, 5, 7, 40), id="nodes"),
        pytest.param(ATTEMPTS, (40, 11, 7, 9, 23, 6, 6, 6, 90), id="attempts"),
        pytest.param(JOBS, (60, 9, 40, 8, 18, 60), id="jobs"),
    ],
)
def test_a_table_with_long_names_fits_80_columns(
    titles: tuple[str, ...], widths: tuple[int, ...]
) -> None:
    kept, found = fitted(titles, widths, 80)

    assert total(found) <= 80
    assert kept[0] == 0


def test_columns_are_left_out_one_by_one_and_only_if_narrow_text_does_not_suffice() -> None:
    kept, found = fitted(EXECUTIONS[:-1], (36, 40, 9, 9, 9, 5, 5), 80)

    assert [EXECUTIONS[each] for each in kept] == [
        *("EXECUTION", "JOB", "STATUS", "FIRE TIME", "TOOK")
    ]
    assert found == [36, 13, 9, 9, 5]


def test_a_list_of_executions_keeps_its_times_rather_than_the_reasons() -> None:
    kept, _ = fitted(EXECUTIONS, (36, 40, 9, 9, 9, 5, 5, 90), 80)

    assert [EXECUTIONS[each] for each in kept] == ["EXECUTION", "JOB", "STATUS", "FIRE TIME"]


def test_ids_and_times_stay_in_one_piece_on_the_narrowest_terminal() -> None:
    titles = ("EXECUTION", "JOB", "STARTED", "SINCE (UTC)")

    assert fitted(titles, (36, 40, 23, 19), 20) == ([0, 1, 2, 3], [36, LEAST, 23, 19])


@pytest.mark.parametrize(
    ("width", "expected"),
    [(13, "billin…report"), (14, "billing/report"), (10, "billi…port"), (11, "billi…eport")],
)
def test_a_long_name_is_shortened_in_the_middle(width: int, expected: str) -> None:
    assert with_short_names(("JOB",), ("billing/report",), (width,)) == [expected]


def test_text_other_than_a_name_is_not_shortened() -> None:
    cells = ("load #2 of", "because of it")

    assert with_short_names(("TASK", "REASON"), cells, (5, 5)) == [*cells]
