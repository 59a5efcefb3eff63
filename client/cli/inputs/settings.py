"""Settings of the client: from flags, the environment, a profile, or by default.

The first one in this order applies: flag, ``ROTA_*``, profile, default. Profiles are tables of
one TOML file::

    profile = "work"

    [profiles.work]
    url = "http://a.example:7400,http://b.example:7400"
    namespace = "billing"

A profile may have a token, which `rota login` stores. It is sent to the addresses of that profile
only, not to those of a flag or a variable.
"""

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import click

from rota.client.transport.endpoints import DEFAULT_URL
from rota.core.errors import RotaError

FILE_VARIABLE = "ROTA_CLIENT_CONFIG"
"""The variable with the path of the file. ``ROTA_CONFIG`` is the configuration file of a node,
which ``rota dev`` starts."""
TOKEN_FILE_FLAG = "--token-file"
TOKEN_FILE_VARIABLE = "ROTA_TOKEN_FILE"
"""The variable that the client library reads, too."""
OTHERS = 0o077
"""The permissions of other users."""
PROFILE_FLAG = "--profile"
PROFILE_VARIABLE = "ROTA_PROFILE"
DEFAULT_PROFILE = "default"
BARE = re.compile(r"[A-Za-z0-9_-]+")
"""A pattern of the keys that TOML allows without quotes."""


class Key(NamedTuple):
    """A setting of the client.

    Attributes:
        flag: The flag of the setting; empty for none.
        variable: The environment variable of the setting; empty for none.
        default: The default of the setting.
    """

    flag: str
    variable: str
    default: str


KEYS = {
    "url": Key("--url", "ROTA_URL", DEFAULT_URL),
    "namespace": Key("--namespace", "ROTA_NAMESPACE", ""),
    "output": Key("--output", "ROTA_OUTPUT", "table"),
    "timeout": Key("--request-timeout", "ROTA_TIMEOUT", "30s"),
    # Neither a flag nor a variable: other users may see arguments, and attempts the environment.
    "token": Key("", "", ""),
    "token_file": Key(TOKEN_FILE_FLAG, TOKEN_FILE_VARIABLE, ""),
    # The client library reads these variables, too.
    "ca": Key("--ca", "ROTA_CA", ""),
    "cert": Key("--cert", "ROTA_CERT", ""),
    "key": Key("--key", "ROTA_KEY", ""),
}


class Value(NamedTuple):
    """The value of a setting.

    Attributes:
        text: The value.
        source: The flag, the variable or the profile that the value comes from, or ``default``.
    """

    text: str
    source: str


class InvalidConfig(RotaError):
    """The file of profiles cannot be read or written, or is invalid; the message has the reason."""

    code = "invalid_config"


@dataclass
class Profiles:
    """The content of the file of profiles.

    Attributes:
        chosen: The profile to use if none is named; empty for the profile ``default``.
        by_name: The values of each profile.
    """

    chosen: str = ""
    by_name: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])


def value_of(name: str, *, is_new: bool = False) -> Value:
    """Return the value of *name*, one of `KEYS`, for the current command.

    Args:
        name: The name of the setting.
        is_new: Whether the profile need not exist, because the command creates it.

    Raises:
        InvalidConfig: The file is invalid.
        click.UsageError: The named profile does not exist.
    """
    key = KEYS[name]
    given = _flags(click.get_current_context()).get(key.flag)
    if given is not None:
        return Value(given, key.flag)
    if key.variable and (text := os.environ.get(key.variable)):
        return Value(text, f"${key.variable}")
    profile = profile_in_use()
    there = values_of_profile(profile, is_new=is_new)
    if name in there:
        return Value(there[name], f"profile {profile.text}")
    return Value(key.default, "default")


def profile_in_use() -> Value:
    """Return the name of the profile of the current command."""
    given = _flags(click.get_current_context()).get(PROFILE_FLAG)
    if given is not None:
        return Value(given, PROFILE_FLAG)
    if text := os.environ.get(PROFILE_VARIABLE):
        return Value(text, f"${PROFILE_VARIABLE}")
    if chosen := read_profiles().chosen:
        return Value(chosen, str(config_path()))
    return Value(DEFAULT_PROFILE, "default")


def checked_name(profile: str) -> str:
    """Return the name of a profile that is written.

    Raises:
        click.UsageError: The name is invalid.
    """
    if not BARE.fullmatch(profile):
        raise click.UsageError(
            f"{profile!r} is not a valid name of a profile; use letters, digits, _ and -"
        )
    return profile


def keep_flag(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """Store a flag for `value_of`; the flag may stand before or after the command."""
    if text is not None:
        _flags(ctx)[max(param.opts, key=len)] = text
    return text


def config_path() -> Path:
    """Return the path of the file of profiles, which need not exist."""
    if named := os.environ.get(FILE_VARIABLE):
        return Path(named)
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "rota" / "config.toml"


def read_profiles() -> Profiles:
    """Return the content of the file of profiles; no profiles if the file does not exist.

    Raises:
        InvalidConfig: The file cannot be read or is invalid.
    """
    path = config_path()
    try:
        with path.open(encoding="utf-8") as file:
            text, mode = file.read(), os.fstat(file.fileno()).st_mode
    except FileNotFoundError:
        return Profiles()
    except OSError as error:
        raise InvalidConfig(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        detail = f"{path}: the file is not UTF-8 text: {error.reason}; save it as UTF-8"
        raise InvalidConfig(detail) from error
    import tomllib

    try:
        profiles = _checked(tomllib.loads(text))
    except ValueError as error:
        raise InvalidConfig(f"{path}: {error}") from error
    if mode & OTHERS and any("token" in each for each in profiles.by_name.values()):
        raise InvalidConfig(
            f"{path}: other users may read or change this file, and it has a token; run "
            f"chmod 600 {shlex.quote(str(path))}, and create a new token if others had access"
        )
    return profiles


def write_profiles(profiles: Profiles) -> None:
    """Write the file of profiles atomically.

    Only its owner can read the file, since it may contain tokens, and a URL a password.

    Raises:
        InvalidConfig: The file cannot be written.
    """
    # A symbolic link, for instance into a repository of such files, stays a link.
    path = config_path().resolve()
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            # For root, replace() would turn /dev/null into a file.
            raise InvalidConfig(f"{path}: is not a file; set ${FILE_VARIABLE} to another path")
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.touch(mode=0o600)
        beside.write_text(_as_toml(profiles), encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise InvalidConfig(f"{path}: {error.strerror}") from error


def _flags(ctx: click.Context) -> dict[str, str]:
    flags: dict[str, str] = ctx.meta.setdefault("rota.flags", {})
    return flags


def values_of_profile(named: Value, *, is_new: bool = False) -> Mapping[str, str]:
    """Return the values of a profile; none if it need not exist.

    Raises:
        InvalidConfig: The file is invalid.
        click.UsageError: The profile was named, does not exist, and is not *is_new*.
    """
    profiles = read_profiles().by_name
    if named.text not in profiles and named.source != "default" and not is_new:
        there = ", ".join(profiles) or "none"
        raise click.UsageError(
            f"there is no profile {named.text!r} ({named.source}); the profiles are: {there}. "
            f"Create it with: rota config set --profile {named.text} url URL"
        )
    return profiles.get(named.text, {})


def _checked(content: dict[str, object]) -> Profiles:
    unknown = content.keys() - {"profile", "profiles"}
    if unknown:
        raise ValueError(f"unknown key {min(unknown)!r}; the keys are profile and profiles")
    chosen, tables = content.get("profile", ""), content.get("profiles", {})
    if not isinstance(chosen, str) or not isinstance(tables, dict):
        raise ValueError(
            "profile must be the name of a profile, and profiles must be tables: [profiles.NAME]"
        )
    found = Profiles(chosen)
    for name, table in tables.items():  # pyright: ignore[reportUnknownVariableType]  # of TOML
        if not isinstance(table, dict):
            raise ValueError(f"profiles.{name} is not a table; write [profiles.{name}]")
        found.by_name[name] = {key: _text(name, key, table[key]) for key in table}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # of TOML
    return found


def _text(profile: str, key: str, value: object) -> str:
    if key not in KEYS:
        raise ValueError(
            f"profiles.{profile}.{key}: unknown setting; the settings are {', '.join(KEYS)}"
        )
    if not isinstance(value, str):
        raise ValueError(f"profiles.{profile}.{key}: {value!r} is not text; quote it")
    return value


def _as_toml(profiles: Profiles) -> str:
    lines = ["# `rota config` rewrites this file; comments are not kept."]
    if profiles.chosen:
        lines.append(f"profile = {_quoted(profiles.chosen)}")
    for name, values in sorted(profiles.by_name.items()):
        lines += ["", f"[profiles.{name if BARE.fullmatch(name) else _quoted(name)}]"]
        lines += [f"{key} = {_quoted(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return *text*, which must be printable, as a basic string of TOML."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
