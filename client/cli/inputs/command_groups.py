"""Groups of commands: with suggestions, with lazily loaded commands, and with a default command."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import click
from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])  # Any: options apply to any group

NEAR_CUTOFF = 0.5
"""The least similarity of a word and a command that the word may be meant for."""
MOVED = "rota.moved"
"""The key, in the values of a context, of the options that stand before a command."""


class Entry(NamedTuple):
    """A command that is not loaded yet.

    Attributes:
        home: The ``module:name`` of the command.
        about: A short help text, repeated here so that a list of commands loads no command.
    """

    home: str
    about: str


def namespace_before(group: F) -> F:
    """Accept ``--namespace`` not only after the command of a group, but also before it."""
    return _before(
        "-n", "--namespace", metavar="NAME", help="Same as --namespace after the command."
    )(group)


def output_before(group: F) -> F:
    """Accept ``--output`` not only after the command of a group, but also before it."""
    return _before("-o", "--output", metavar="FORM", help="Same as --output after the command.")(
        group
    )


def _before(*names: str, metavar: str, help: str) -> Callable[[F], F]:  # noqa: A002 - of click
    return click.option(*names, metavar=metavar, expose_value=False, callback=_move, help=help)


def _move(ctx: click.Context, param: click.Parameter, text: str | None) -> None:
    """Store an option for the command, which refuses the option if it does not have it."""
    if text is not None:
        ctx.meta.setdefault(MOVED, []).append(f"{max(param.opts, key=len)}={text}")


class SuggestingGroup(click.Group):
    """A group that suggests similar names for an unknown command.

    Options of `namespace_before` and `output_before` are passed to the command.

    Attributes:
        aliases: Other words for its commands, each with the words that replace it.
        advice: Words that are no command, each with the advice in the error.
        for_jobs: What to type if an unknown word is a job, with ``{job}`` in its place; empty if
            the commands are not about jobs.
    """

    aliases: Mapping[str, Sequence[str]] = MappingProxyType({})
    advice: Mapping[str, str] = MappingProxyType({})
    for_jobs: str = ""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command with which *args* begin, and the remaining words.

        Raises:
            click.UsageError: There is no such command.
        """
        word, *rest = args
        words = self.aliases.get(word, (word,))
        if self.get_command(ctx, words[0]) is None and not word.startswith("-"):
            advice = f"{self._advice_for(word, ctx)}{self._advice_for_job(word)}"
            ctx.fail(f"There is no command {word!r}. {advice}")
        moved: list[str] = ctx.meta.pop(MOVED, [])
        return super().resolve_command(ctx, [*words, *moved, *rest])

    def _advice_for(self, word: str, ctx: click.Context) -> str:
        if word in self.advice:
            return self.advice[word]
        names = self.list_commands(ctx)
        close = get_close_matches(word, names, n=3, cutoff=NEAR_CUTOFF)
        hint = " or ".join(map(repr, close))
        return f"Did you mean {hint}?" if close else f"The commands are: {', '.join(names)}."

    def _advice_for_job(self, word: str) -> str:
        if not self.for_jobs:
            return ""
        return f" If {word!r} is a job: {self.for_jobs.format(job=shlex.quote(word))}"


class LazyGroup(SuggestingGroup):
    """A group whose commands are loaded when they run.

    Args:
        args: Positional arguments of `click.Group`.
        entries: The commands by name, in the order of the help text.
        aliases: See `SuggestingGroup`.
        advice: See `SuggestingGroup`.
        sections: The titles of the parts of the help text, each with its lines: commands, which
            share a line, and a text about them. Without sections, each command has a line.
        more: Keyword arguments of `click.Group`.
    """

    def __init__(
        self,
        *args: object,
        entries: Mapping[str, Entry],
        aliases: Mapping[str, Sequence[str]] = MappingProxyType({}),
        advice: Mapping[str, str] = MappingProxyType({}),
        sections: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        **more: object,
    ) -> None:
        super().__init__(*args, **more)  # type: ignore[arg-type]  # whatever click.group passes on
        self.entries = entries
        self.aliases = aliases
        self.advice = advice
        each = {name: entry.about for name, entry in entries.items()}
        self.sections = sections or {"Commands": each}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        del ctx
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command; None if there is no command with this name."""
        del ctx
        if cmd_name not in self.entries:
            return None
        module, _, name = self.entries[cmd_name].home.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin with *incomplete*, without loading them."""
        return [
            CompletionItem(name, help=entry.about)
            for name, entry in self.entries.items()
            if name.startswith(incomplete)
        ] + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading them."""
        del ctx
        for title, lines in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([*lines.items()])
        if self.aliases:
            words = (f"{word} = {' '.join(to)}" for word, to in self.aliases.items())
            formatter.write_paragraph()
            formatter.write_text(f"Aliases: {', '.join(words)}.")


class ListingGroup(LazyGroup):
    """A group with the default command ``list``: ``rota jobs`` means ``rota jobs list``.

    Attributes:
        lists_names: Whether a first word that is no command, and like none, is one for ``list``.
    """

    lists_names = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert ``list`` if no command is named."""
        rest = args[self._moved_count(args) :]
        # The completion of an empty word returns the commands.
        is_bare = not rest and not ctx.resilient_parsing
        has_option = bool(rest) and rest[0].startswith("-")
        is_name = self.lists_names and bool(rest) and not has_option and self._is_name(rest[0])
        if is_bare or is_name or (has_option and rest[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)

    def _is_name(self, word: str) -> bool:
        known = (*self.entries, *self.aliases)
        return not get_close_matches(word, known, n=1, cutoff=NEAR_CUTOFF)

    def _moved_count(self, args: Sequence[str]) -> int:
        """Return the number of words at the start of *args* that are options of the group."""
        names = {name for param in self.params for name in param.opts}
        count = 0
        while count < len(args):
            word = args[count]
            is_attached = not word.startswith("--") and word[:2] in names
            if word in names:
                count += 2
            elif is_attached or word.partition("=")[0] in names:
                count += 1
            else:
                break
        return count

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin with *incomplete*, or the options of ``list``."""
        listing = self.get_command(ctx, "list") if incomplete.startswith("-") else None
        if listing is not None:
            return listing.shell_complete(ctx, incomplete)
        return super().shell_complete(ctx, incomplete)
