"""Sources of the settings of ``rota``, and the file of profiles."""

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.client.cli.inputs import settings
from rota.client.cli.inputs.settings import (
    KEYS,
    InvalidConfig,
    Profiles,
    read_profiles,
    write_profiles,
)
from rota.node.system.config import load_config
from support.rota_program import NO_NODE, PATIENCE_S, Rota, running
from support.rotad import Rotad

URLS = [f"http://127.0.0.1:{port}" for port in (7401, 7402, 7403)]


def shown(rota: Rota, *argv: str) -> dict[str, tuple[str, str]]:
    """Return the values in use, and their sources."""
    ran = rota("config", "show", "-o", "json", *argv)
    return {each["name"]: (each["value"], each["source"]) for each in ran.json}


@pytest.fixture
def file(rota_alone: Rota) -> Path:
    """The file of profiles; there is none yet."""
    del rota_alone
    return settings.config_path()


# -- what wins -------------------------------------------------------------------------------------


def test_a_flag_wins_over_a_variable_over_the_profile_over_the_default(
    rota_alone: Rota, monkeypatch: pytest.MonkeyPatch
) -> None:
    rota = rota_alone
    seen = [shown(rota)["url"]]
    rota("config", "set", "url", URLS[0])
    seen.append(shown(rota)["url"])
    monkeypatch.setenv("ROTA_URL", URLS[1])
    seen.append(shown(rota)["url"])
    seen.append(shown(rota, "--url", URLS[2])["url"])

    assert seen == [
        ("http://127.0.0.1:7400", "default"),
        (URLS[0], "profile default"),
        (URLS[1], "$ROTA_URL"),
        (URLS[2], "--url"),
    ]


def test_the_profile_is_that_of_the_flag_or_the_variable_or_the_one_chosen(
    rota_alone: Rota, monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    rota = rota_alone
    for name in ("default", "chosen", "variable", "flag"):
        rota("config", "set", "--profile", name, "namespace", f"of-{name}")
    seen = [(shown(rota)["profile"], shown(rota)["namespace"][0])]
    rota("config", "use", "chosen")
    seen.append((shown(rota)["profile"], shown(rota)["namespace"][0]))
    monkeypatch.setenv("ROTA_PROFILE", "variable")
    seen.append((shown(rota)["profile"], shown(rota)["namespace"][0]))
    flagged = shown(rota, "--profile", "flag")
    seen.append((flagged["profile"], flagged["namespace"][0]))

    assert seen == [
        (("default", "default"), "of-default"),
        (("chosen", str(file)), "of-chosen"),
        (("variable", "$ROTA_PROFILE"), "of-variable"),
        (("flag", "--profile"), "of-flag"),
    ]


@pytest.mark.parametrize("key", [name for name, key in KEYS.items() if key.variable])
def test_every_key_with_a_variable_can_be_set_in_the_environment(
    rota_alone: Rota, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    value = {
        "url": URLS[0],
        "namespace": "billing",
        "output": "wide",
        "timeout": "3s",
        "token_file": "/run/token",
        "ca": "/run/ca.crt",
        "cert": "/run/ana.crt",
        "key": "/run/ana.key",
    }[key]
    monkeypatch.setenv(KEYS[key].variable, value)

    assert shown(rota_alone)[key] == (value, f"${KEYS[key].variable}")


def test_a_flag_before_the_command_counts_too(rota_alone: Rota) -> None:
    ran = rota_alone("--url", URLS[0], "config", "show", "-o", "jsonl")

    assert f'"value":"{URLS[0]}","source":"--url"' in ran.out


def test_flags_of_one_command_do_not_reach_the_next(rota_alone: Rota) -> None:
    rota_alone("config", "show", "--url", URLS[0])

    assert shown(rota_alone)["url"][1] == "default"


# -- what commands do with it ----------------------------------------------------------------------


def test_the_namespace_of_a_profile_is_that_of_jobs_and_lists(rota: Rota) -> None:
    rota("jobs", "create", "elsewhere", "--", "true")
    rota("config", "set", "namespace", "mine")

    rota("jobs", "create", "here", "--", "true")
    rota("trigger", "here", "--wait")

    assert rota("jobs", "-o", "name").out == "mine/here\n"
    assert rota("jobs", "-n", "default", "-o", "name").out == "default/elsewhere\n"
    assert rota("jobs", "-A", "-o", "name").out == "default/elsewhere\nmine/here\n"
    assert rota("executions", "show", "here@latest", "-o", "json").json["job"] == "mine/here"
    assert rota("executions", "-o", "name").out == rota("executions", "-A", "-o", "name").out
    assert rota("executions", "-n", "default", "-o", "name").out == ""
    assert rota("executions", "show", "@latest").status == 0
    assert rota("executions", "show", "@latest", "-n", "default").status == 3


def test_the_output_of_a_profile_is_that_of_commands_that_have_it(rota: Rota) -> None:
    rota("config", "set", "output", "jsonl")

    assert rota("jobs", "-n", "void").out == ""
    assert rota("config", "path").status == 0
    assert rota("config", "profiles").json["values"] == {"output": "jsonl"}
    assert rota("config", "profiles", "-o", "name").out == "default\n"
    assert rota("version").out.startswith("client ")


def test_one_of_several_urls_is_enough(rota: Rota, node: Rotad) -> None:
    rota("config", "set", "--profile", "both", "url", f"{NO_NODE},{node.url}")

    ran = rota("jobs", "--profile", "both", "--url", f"{NO_NODE},{node.url}", "-o", "json")

    assert ran.status == 0


@pytest.fixture
def silent_url() -> Iterator[str]:
    """Address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_request_takes_no_longer_than_its_timeout(rota_alone: Rota, silent_url: str) -> None:
    with running("jobs", "--url", silent_url, "--request-timeout", "50ms") as asking:
        _, err = asking.communicate(timeout=PATIENCE_S)

    assert asking.returncode == 6
    assert "took too long" in err
    bare = rota_alone("jobs", "--url", silent_url, "--request-timeout", "0.05")
    assert "took too long" in bare.err
    wrong = rota_alone("jobs", "--url", silent_url, "--request-timeout", "soon")
    assert wrong.status == 2
    assert "(--request-timeout)" in wrong.err


def test_what_is_set_for_the_command_means_nothing_to_a_node() -> None:
    variables = [key.variable for key in KEYS.values()]
    variables += [settings.FILE_VARIABLE, settings.PROFILE_VARIABLE]

    assert load_config(None, dict.fromkeys(variables, "x"), {}).slots > 0


# -- the file --------------------------------------------------------------------------------------


def test_the_file_is_among_the_users_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("ROTA_CLIENT_CONFIG", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    assert settings.config_path() == Path("/home/someone/.config/rota/config.toml")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/etc/someone")
    assert settings.config_path() == Path("/etc/someone/rota/config.toml")
    monkeypatch.setenv("ROTA_CLIENT_CONFIG", "/tmp/rota.toml")
    assert settings.config_path() == Path("/tmp/rota.toml")


def test_the_file_is_its_owners_and_made_where_there_is_no_folder(
    rota_alone: Rota, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "deep" / "er" / "config.toml"
    monkeypatch.setenv("ROTA_CLIENT_CONFIG", str(file))

    done = rota_alone("config", "set", "timeout", "10s")

    assert (done.status, done.out, done.err) == (0, "", "set timeout of profile default\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["config.toml"]
    assert rota_alone("config", "path").out == f"{file}\n"


def test_a_link_to_the_file_remains_one(rota_alone: Rota, file: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.toml"
    kept.touch()
    file.symlink_to(kept)

    rota_alone("config", "set", "namespace", "linked")

    assert file.is_symlink()
    assert 'namespace = "linked"' in kept.read_text()


def test_what_is_no_file_is_not_replaced_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As /dev/null is, which root could replace.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setenv("ROTA_CLIENT_CONFIG", str(pipe))

    with pytest.raises(InvalidConfig, match="is not a file"):
        write_profiles(Profiles())

    assert pipe.is_fifo()


def test_what_is_written_is_read_again(file: Path) -> None:
    del file
    profiles = Profiles(
        chosen='a "b"\\', by_name={'a "b"\\': {"url": "http://ä:1"}, "plain": {"output": "name"}}
    )

    write_profiles(profiles)

    assert read_profiles() == profiles


def test_a_profile_without_values_is_gone(rota_alone: Rota) -> None:
    rota = rota_alone
    rota("config", "set", "--profile", "brief", "namespace", "x")
    rota("config", "use", "brief")

    unset = rota("config", "unset", "namespace")

    assert unset.err == "unset namespace of profile brief\n"
    assert rota("config", "profiles").err == "no profiles yet; see `rota config set --help`\n"
    assert shown(rota)["profile"] == ("default", "default")
    assert rota("config", "unset", "url").err == "profile default does not set url\n"


def test_profiles_are_listed_with_the_one_in_use(rota_alone: Rota) -> None:
    rota = rota_alone
    rota("config", "set", "--profile", "a", "namespace", "x")
    rota("config", "set", "--profile", "b", "output", "wide")
    rota("config", "use", "b")

    rows = [line.split() for line in rota("config", "profiles", "-o", "table").out.splitlines()]

    assert rows == [
        ["PROFILE", "IN", "USE", "NAMESPACE", "OUTPUT"],
        ["a", "x"],
        ["b", "yes", "wide"],
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "unknown key 'x'; the keys are profile and profiles"),
        ("profile = 1", "profile must be the name of a profile"),
        ("[profiles]\na = 1", "profiles.a is not a table"),
        ("[profiles.a]\ncolour = 'red'", "profiles.a.colour: unknown setting; the settings are"),
        ("[profiles.a]\ntimeout = 10", "profiles.a.timeout: 10 is not text; quote it"),
        ("[profiles.a", "Expected ']'"),
        ("\xff", "is not UTF-8 text"),
    ],
)
def test_a_damaged_file_is_reported_with_place_and_reason(
    rota_alone: Rota, file: Path, text: str, said: str
) -> None:
    file.write_bytes(text.encode("latin-1"))

    for argv in (["config", "show"], ["jobs"], ["config", "set", "namespace", "x"]):
        ran = rota_alone(*argv)
        assert (ran.status, ran.out) == (9, "")
        assert ran.err.startswith(f"error: {file}: ")
        assert said in ran.err
    assert rota_alone("config", "path").status == 0


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["set", "url", "nonsense"], "'nonsense' is not the URL of a node"),
        (["set", "output", "xml"], "'xml' is not one of table"),
        (["set", "timeout", "soon"], "is not a duration"),
        (["set", "namespace", "a/b"], "'a/b' is not a namespace"),
        (["set", "colour", "red"], "is not one of 'url', 'namespace'"),
        (
            ["set", "--profile", "a b", "url", "http://x:1"],
            "'a b' is not a valid name of a profile",
        ),
        (["use", "absent"], "there is no profile 'absent'; the profiles are: default"),
        (["show", "--profile", "absent"], "there is no profile 'absent' (--profile)"),
    ],
)
def test_what_cannot_be_set_or_used_is_wrong_usage(
    rota_alone: Rota, argv: list[str], said: str
) -> None:
    rota_alone("config", "set", "namespace", "x")

    ran = rota_alone("config", *argv)

    assert (ran.status, ran.out) == (2, "")
    assert said in " ".join(ran.err.split())
