"""Lines about tokens and profiles in the greeting of ``rota dev``."""

import click

from rota.client.cli.inputs.settings import profile_in_use, values_of_profile
from rota.core.errors import RotaError


def access_line(url: str, *, is_open: bool) -> str:
    """Return the line with the form of a request of curl to the node at *url*."""
    if is_open:
        return "  open  every program on this machine can use it, without a token\n"
    return f'  curl  curl -H "Authorization: Bearer $(rota auth token)" {url}/api/v1/jobs\n'


def page_line(url: str, *, is_open: bool) -> str:
    """Return the line with the address of the web page of the node at *url*."""
    return (
        f"  page  {url}/ui/{'' if is_open else '  (sign in with the key of `rota auth token`)'}\n"
    )


def export_line(urls: str, *, is_usual: bool) -> str:
    """Return the command that directs later commands to the nodes at *urls*.

    Args:
        urls: The addresses.
        is_usual: True if they are the default of commands; the line is then needed only if a
            profile has another URL.
    """
    other = _url_of_profile()
    if is_usual and other in ("", urls):
        return ""
    note = "" if other in ("", urls) else "    # instead of the URL of your profile, which is kept"
    return f"  export ROTA_URL={urls}{note}\n"


def _url_of_profile() -> str:
    """Return the URL of the profile in use; empty if there is none."""
    try:
        return values_of_profile(profile_in_use()).get("url", "")
    except (RotaError, click.UsageError):  # Commands report it; a temporary node needs no profile.
        return ""
