"""Commands with a program as argument, whose words follow two dashes."""

import shlex
from collections.abc import Sequence

import click

DASHES = "--"


class ProgramCommand(click.Command):
    """A command whose last argument is a program, the words of which must follow two dashes.

    Without the dashes, options of the program would be taken as options of ``rota``. The error
    message has the complete command with the dashes in the right place.

    Attributes:
        advice: A further sentence of the error message; empty for none.
    """

    advice = ""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse *args*.

        Raises:
            click.UsageError: *args* are invalid, or words of the program precede the dashes.
        """
        before = args[: args.index(DASHES)] if DASHES in args else args
        is_help = any(word in ctx.help_option_names for word in before)
        first = None if ctx.resilient_parsing or is_help else self._first_word(ctx, args)
        if first is not None:
            own, program = self._sorted(args[first:])
            words = shlex.join([*args[:first], *own, DASHES, *program])
            further = f"\n{self.advice}" if self.advice else ""
            ctx.fail(f"The command follows two dashes: {ctx.command_path} {words}{further}")
        return super().parse_args(ctx, args)

    def _first_word(self, ctx: click.Context, args: Sequence[str]) -> int | None:
        """Return the index of the program's first word before the dashes; None if there is none."""
        program = next(
            each.name for each in self.params if isinstance(each, click.Argument) and each.nargs < 0
        )
        is_value = False
        for place, word in enumerate(args):
            if word == DASHES and not is_value:
                return None
            try:
                given, _, _ = self.make_parser(ctx).parse_args(args=list(args[: place + 1]))
            except click.BadOptionUsage:
                is_value = True  # The next word is the value of this option.
                continue
            except click.UsageError:
                return None
            is_value = False
            if given.get("files"):
                return None  # A job comes from flags or from a file; this has its own error.
            words = given.get(program or "")
            if isinstance(words, tuple) and words:  # Otherwise it is missing, or click's UNSET.
                return place
        return None

    def _sorted(self, args: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the words of *args* that are for ``rota``, and those of the program.

        Long options of ``rota`` are taken as its own. Short options, such as ``-n``, are taken as
        those of the program.
        """
        options = {
            name: each
            for each in self.params
            if isinstance(each, click.Option)
            for name in (*each.opts, *each.secondary_opts)
            if name.startswith("--")
        }
        own: list[str] = []
        program: list[str] = []
        left = list(args)
        while left:
            word = left.pop(0)
            if word == DASHES:
                return own, program + left
            name, equals, _ = word.partition("=")
            if name not in options:
                program.append(word)
                continue
            own.append(word)
            if not equals and not options[name].is_flag and left:
                own.append(left.pop(0))
        return own, program
