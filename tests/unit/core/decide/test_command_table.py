"""The table of commands has one row for each command."""

from collections import Counter
from typing import get_args

from rota.core.decide.command_table import ROWS
from rota.core.vocabulary.commands import Command


def test_each_command_of_the_union_has_one_row() -> None:
    rows = Counter(row.command for row in ROWS)

    assert rows == Counter(get_args(Command))
