"""``rota login`` and ``rota logout``: the token of a profile."""

import sys
from pathlib import Path

import click

from rota.client.cli.display.printing import say
from rota.client.cli.inputs import settings
from rota.client.cli.inputs.options import (
    NO_FILES,
    TlsInUse,
    examples,
    profile_option,
    timeout_in_use,
    tls_in_use,
    url_option,
    urls_in_use,
)
from rota.client.transport.endpoints import DEFAULT_URL, urls_of

INPUT_MAX = 4_096
"""The most characters that are read as a token."""
OF_A_CLUSTER = ("url", "token", "token_file")
"""Settings of a profile that are replaced by a login."""


@click.command(
    epilog=examples(
        "rota login --url https://rota.example:7400",
        "rota login --profile work --url https://10.0.0.11:7400 < token",
        "rota login --url https://10.0.0.11:7400 --ca ca.crt < token",
    )
)
@url_option
def login() -> None:
    """Store a token in a profile, with the URL and the files of TLS.

    The token is read from standard input; on a terminal, it is asked for and not shown. It is
    stored if a node accepts it. The file of profiles is then readable by its owner only. A profile
    of another URL is replaced only if it is named with --profile.
    """
    from rota.client.client import Client

    if settings.value_of("token_file", is_new=True).source == settings.TOKEN_FILE_FLAG:
        raise click.UsageError(
            "rota login reads the token from standard input: rota login < FILE; `rota config set "
            "token_file FILE` stores the path instead"
        )
    urls, timeout_s = urls_in_use(is_new=True), timeout_in_use(is_new=True)
    check_profile_for(urls)
    token = _read_token()
    files = tls_in_use(is_new=True)
    with Client(urls, token=token, timeout_s=timeout_s, **files._asdict()) as client:
        found = client.whoami()
    profile = store_token(urls, token, files)
    say(f"logged in at {','.join(urls)} as {found.principal}; profile {profile} has the token")


@click.command(epilog=examples("rota logout", "rota logout --profile work"))
@profile_option
def logout() -> None:
    """Remove the token from a profile.

    The token itself stays valid: `rota key revoke` ends a key and its tokens.
    """
    profiles = settings.read_profiles()
    name = settings.profile_in_use().text
    if profiles.by_name.get(name, {}).pop("token", None) is None:
        say(f"profile {name} has no token")
        return
    settings.write_profiles(profiles)
    say(f"removed the token from profile {name}; `rota key revoke` ends a key and its tokens")


def check_profile_for(urls: tuple[str, ...]) -> None:
    """Check that storing a token for *urls* replaces nothing that belongs to another cluster.

    Raises:
        InvalidConfig: The file of profiles cannot be read.
        click.UsageError: The profile has other addresses, and was not named by the flag.
    """
    profile = settings.profile_in_use()
    values = settings.values_of_profile(profile, is_new=True)
    if profile.source == settings.PROFILE_FLAG or values.keys().isdisjoint(OF_A_CLUSTER):
        return
    there = values.get("url", DEFAULT_URL)
    if {*urls}.isdisjoint(urls_of(there)):
        raise click.UsageError(
            f"profile {profile.text} is for {there}, and its URL and token would be replaced by "
            f"those for {','.join(urls)}; store them in another profile with --profile NAME, or "
            f"replace these with --profile {profile.text}"
        )


def store_token(urls: tuple[str, ...], token: str, files: TlsInUse = NO_FILES) -> str:
    """Store *token* for *urls* in the profile of the current command, and return its name.

    Args:
        urls: The addresses.
        token: The token.
        files: The files of TLS that the profile gets, too; None stands for no change.

    Raises:
        InvalidConfig: The file of profiles cannot be read or written.
    """
    profiles = settings.read_profiles()
    name = settings.checked_name(settings.profile_in_use().text)
    values = profiles.by_name.setdefault(name, {})
    values.pop("token_file", None)
    values.update(url=",".join(urls), token=token)
    for field, file in files._asdict().items():
        if file is not None:
            values[field] = str(Path(file).absolute())
    settings.write_profiles(profiles)
    return name


def _read_token() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Token", hide_input=True, err=True)).strip()
    # Line ends of a file or of `echo` are no part of the token; the client refuses other content.
    return sys.stdin.read(INPUT_MAX + 1).strip()
