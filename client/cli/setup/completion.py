"""``rota completion``: completion of commands, options and names in a shell."""

import click
from click.shell_completion import get_completion_class

from rota.client.cli.display.printing import out
from rota.client.cli.inputs.options import examples

VARIABLE = "_ROTA_COMPLETE"
"""The variable with which the script requests completions from the program."""


@click.command(
    epilog=examples(
        "rota completion bash >> ~/.bashrc",
        "rota completion zsh >> ~/.zshrc",
        "rota completion fish > ~/.config/fish/completions/rota.fish",
    )
)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print a script with which SHELL completes commands, options and names of jobs.

    The names are requested from a node, which has to answer within half a second.
    """
    kind = get_completion_class(shell)
    assert kind is not None, f"click supports {shell}"
    root = click.get_current_context().find_root()
    out(kind(root.command, {}, root.info_name or "rota", VARIABLE).source())
