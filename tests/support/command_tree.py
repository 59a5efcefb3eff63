"""The commands of ``rota``, and the examples in their help texts."""

from collections.abc import Iterator

import click

from rota.client.cli.inputs.command_groups import SuggestingGroup
from rota.client.cli.main import cli


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command and group with its full name."""
    todo: list[tuple[str, click.Command]] = [("rota", cli)]
    while todo:
        name, command = todo.pop()
        yield name, command
        if isinstance(command, SuggestingGroup):
            context = click.Context(command)
            for each in command.list_commands(context):
                found = command.get_command(context, each)
                assert found is not None
                todo.append((f"{name} {each}", found))


def examples_of(command: click.Command) -> list[str]:
    """Return the examples of a help text."""
    _, _, listed = (command.epilog or "").partition("Examples:\n")
    return [line.strip() for line in listed.splitlines()]
