"""``rota config``: profiles, which store settings that every command would otherwise need."""

import re
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from rota.client.cli.display.printing import out, say
from rota.client.cli.display.show import Column, Look, show_many
from rota.client.cli.inputs import settings
from rota.client.cli.inputs.command_groups import SuggestingGroup, output_before
from rota.client.cli.inputs.options import (
    FORMATS,
    complete_profile,
    examples,
    format_option,
    profile_option,
    seconds_of,
    url_option,
)
from rota.client.cli.inputs.settings import KEYS, Profiles
from rota.client.transport.endpoints import urls_of


class SettingView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A setting, its value, and the source of the value."""

    name: str
    value: str
    source: str


class ProfileView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A profile with its values."""

    name: str
    is_used: bool
    values: dict[str, str]


def _key_column(key: str) -> Column[ProfileView]:
    return Column(
        key.upper().replace("_", " "),
        lambda profile, _: profile.values.get(key, ""),
        is_optional=True,
    )


SETTING: Look[SettingView] = Look(
    name=lambda setting: setting.name,
    columns=(
        Column("SETTING", lambda setting, _: setting.name),
        Column("VALUE", lambda setting, _: setting.value or "-"),
        Column("FROM", lambda setting, _: setting.source),
    ),
)
PROFILE: Look[ProfileView] = Look(
    name=lambda profile: profile.name,
    columns=(
        Column("PROFILE", lambda profile, _: profile.name),
        Column("IN USE", lambda profile, _: "yes" if profile.is_used else ""),
        *(_key_column(key) for key in KEYS),
    ),
)


@click.group(
    cls=SuggestingGroup,
    epilog=examples(
        "rota config set url http://rota.example:7400",
        "rota config set --profile work namespace billing",
        "rota config use work",
        "rota config show",
    ),
)
@output_before
def config() -> None:
    """Store URL, namespace, output, timeout, and files of a token and of TLS in profiles.

    A flag takes precedence over a variable (ROTA_URL, ROTA_NAMESPACE, ROTA_OUTPUT, ROTA_TIMEOUT,
    ROTA_TOKEN_FILE, ROTA_CA, ROTA_CERT, ROTA_KEY), and a variable over the profile. `rota login`
    stores a token itself. The profile is the one that --profile or ROTA_PROFILE names, else the one
    chosen with `rota config use`, else the profile default.
    """


@config.command("show", epilog=examples("rota config show", "rota config show -o json"))
@format_option
@url_option
def show_config(form: str) -> None:
    """Show the current values and their sources."""
    values = [("profile", settings.profile_in_use())]
    values += [(name, settings.value_of(name)) for name in KEYS]
    views = [
        SettingView(name=name, value=_shown(name, each.text), source=each.source)
        for name, each in values
    ]
    show_many(views, SETTING, form)


@config.command(
    "set",
    short_help="Set a value in a profile.",
    epilog=examples(
        "rota config set url http://a.example:7400,http://b.example:7400",
        "rota config set --profile work namespace billing",
        "rota config set timeout 10s",
    ),
)
@click.argument("key", type=click.Choice(list(KEYS)))
@click.argument("value")
@profile_option
def set_value(key: str, value: str) -> None:
    """Set a value in a profile, which is created if it does not exist.

    A token is stored by `rota login`.
    """
    if key == "token":
        raise click.UsageError(
            "a token is not accepted as an argument, which other users and the history of the "
            "shell may show; run `rota login`, or set token_file"
        )
    try:
        CHECKS[key](value)
    except ValueError as error:
        raise click.UsageError(f"{key}: {error}") from error
    profiles = settings.read_profiles()
    name = settings.checked_name(settings.profile_in_use().text)
    profiles.by_name.setdefault(name, {})[key] = value
    settings.write_profiles(profiles)
    say(f"set {key} of profile {name}")


@config.command(
    "unset",
    short_help="Remove a value from a profile.",
    epilog=examples("rota config unset namespace", "rota config unset --profile work url"),
)
@click.argument("key", type=click.Choice(list(KEYS)))
@profile_option
def unset_value(key: str) -> None:
    """Remove a value from a profile; a profile without values is removed."""
    profiles = settings.read_profiles()
    name = settings.profile_in_use().text
    values = profiles.by_name.get(name, {})
    if values.pop(key, None) is None:
        say(f"profile {name} does not set {key}")
        return
    if not values:
        _drop(profiles, name)
    settings.write_profiles(profiles)
    say(f"unset {key} of profile {name}")


@config.command("use", epilog=examples("rota config use work"))
@click.argument("profile", shell_complete=complete_profile)
def use_profile(profile: str) -> None:
    """Choose the profile that commands use if none is named."""
    profiles = settings.read_profiles()
    if profile not in profiles.by_name:
        there = ", ".join(profiles.by_name) or "none"
        raise click.UsageError(f"there is no profile {profile!r}; the profiles are: {there}")
    profiles.chosen = profile
    settings.write_profiles(profiles)
    say(f"using profile {profile}")


@config.command("profiles", epilog=examples("rota config profiles"))
@format_option
@profile_option
def list_profiles(form: str) -> None:
    """List the profiles with their values."""
    used = settings.profile_in_use().text
    views = [
        ProfileView(
            name=name,
            is_used=name == used,
            values={key: _shown(key, text) for key, text in values.items()},
        )
        for name, values in settings.read_profiles().by_name.items()
    ]
    if not views and form in ("table", "wide"):
        say("no profiles yet; see `rota config set --help`")
        return
    show_many(views, PROFILE, form)


@config.command(
    "path",
    short_help="Print the path of the file of profiles.",
    epilog=examples("rota config path", '"${EDITOR:-vi}" "$(rota config path)"'),
)
def show_path() -> None:
    """Print the path of the file of profiles.

    The path is $ROTA_CLIENT_CONFIG, else rota/config.toml in $XDG_CONFIG_HOME, else in ~/.config.
    """
    out(str(settings.config_path()))


def _drop(profiles: Profiles, name: str) -> None:
    del profiles.by_name[name]
    if profiles.chosen == name:
        profiles.chosen = ""


def _shown(key: str, text: str) -> str:
    """Return a value as it is printed: of a token, only the public part."""
    if key != "token" or not text:
        return text
    from rota.client.transport.credentials import public_part

    return f"({public_part(text)})"


def _check_file(text: str) -> None:
    if not Path(text).is_absolute():
        raise ValueError(f"{text!r} is not an absolute path, so it depends on the current folder")


def _check_namespace(text: str) -> None:
    if not re.fullmatch(r"[\w.-]+", text):
        raise ValueError(f"{text!r} is not a namespace; use letters, digits, dots, _ and -")


def _check_output(text: str) -> None:
    if text not in FORMATS:
        raise ValueError(f"{text!r} is not one of {', '.join(FORMATS)}")


CHECKS: dict[str, Callable[[str], object]] = {
    "url": urls_of,
    "namespace": _check_namespace,
    "output": _check_output,
    "timeout": seconds_of,
    **dict.fromkeys(("token_file", "ca", "cert", "key"), _check_file),
}
