"""Output of a new token, which is shown once."""

from typing import TYPE_CHECKING

from rota.client.cli.display.printing import out, say
from rota.client.cli.display.show import Column, Look, show_one
from rota.client.cli.human import absolute
from rota.client.cli.inputs.options import output_option

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no documents.
    from rota.wire.documents import NewTokenView

FORMS = ("token", "json", "yaml")
new_token_option = output_option(FORMS)
"""Adds ``--output`` with the token alone as the default."""


def show_new_token(made: "NewTokenView", form: str) -> None:
    """Print a new token on standard output, and its properties on standard error."""
    if form == "token":
        out(made.token)
    else:
        look: Look[NewTokenView] = Look(
            name=lambda view: view.name, columns=(Column("NAME", lambda view, _: view.name),)
        )
        show_one(made, look, form)
    end = f"until {absolute(made.expires_at)} UTC" if made.expires_at else "without an end"
    say(
        f"key {made.name}: token {made.token_id} of {made.principal}, {end}; it is shown only "
        "once. Store it where only its user can read it, or log in with it: rota login"
    )
