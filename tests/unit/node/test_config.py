"""The table of settings, its checks, and the names and origins of the API."""

from pathlib import Path
from typing import Any

import click
import pytest

from rota.core.errors import Refused
from rota.node.main import command
from rota.node.system import config_values
from rota.node.system.config import SETTINGS, NodeConfig, Setting, load_config

each_setting = pytest.mark.parametrize(
    "setting", SETTINGS.values(), ids=[setting.name for setting in SETTINGS.values()]
)

# -- the table -------------------------------------------------------------------------------------


@each_setting
def test_a_default_is_one_of_the_values(setting: Setting) -> None:
    default = getattr(NodeConfig(), setting.name)

    if setting.default:
        assert setting.values.parse(setting.default) == default
    else:
        assert not default


@each_setting
def test_a_flag_gives_its_setting_and_the_help_has_its_meaning(setting: Setting) -> None:
    [option] = [each for each in command.params if setting.flag in each.opts]

    assert option.name == setting.name
    assert setting.meaning.replace("`", "") in str(option.to_info_dict()["help"])


@each_setting
def test_a_flag_without_its_value_is_wrong_usage(setting: Setting) -> None:
    if setting.values.metavar:
        with pytest.raises(click.BadOptionUsage, match="requires an argument"):
            command.make_context("rotad", [setting.flag])


def test_the_later_of_default_file_environment_and_flag_wins(tmp_path: Path) -> None:
    file = tmp_path / "rota.toml"
    file.write_text("slots = 1")
    variable = {SETTINGS["slots"].variable: "2"}

    slots = [
        load_config(None, {}, {}).slots,
        load_config(file, {}, {}).slots,
        load_config(file, variable, {}).slots,
        load_config(file, variable, {"slots": "3"}).slots,
    ]

    assert slots == [64, 1, 2, 3]


ETCD = {"etcd": "http://127.0.0.1:2379"}


@pytest.mark.parametrize(
    ("flags", "problems"),
    [
        ({"shards": 100}, ["shards: 100 is not a power of two"]),
        ({"min_sync": 4}, ["min_sync: 4 is more than the 3 replicas"]),
        ({"listen": "0.0.0.0:7400"}, ["listen: 0.0.0.0:7400 can be reached from other machines"]),
        ({"peer_listen": "0.0.0.0:1", "insecure": True, **ETCD}, ["peer_listen: 0.0.0.0:1 is no"]),
        (
            {"advertise": "auto", **ETCD},
            ["listen: 127.0.0.1:7400 can be reached only from this machine"],
        ),
        (
            {"shards": 3, "min_sync": 9, "slots": 0},
            ["command line: slots", "shards: 3", "min_sync: 9"],
        ),
    ],
)
def test_settings_that_contradict_each_other_are_all_reported(
    flags: dict[str, object], problems: list[str]
) -> None:
    with pytest.raises(Refused) as refused:
        load_config(None, {}, flags)

    found = [str(problem) for problem in refused.value.problems]
    assert len(found) == len(problems)
    assert all(one.startswith(text) for one, text in zip(found, problems, strict=True))


# -- names and origins of the API ------------------------------------------------------------------


def test_names_and_origins_are_read_in_lower_case_and_joined_by_commas() -> None:
    config = load_config(
        None,
        {"ROTA_ALLOWED_HOSTS": "Rota, *.Example.org.", "ROTA_ALLOWED_ORIGINS": "HTTPS://Rota:8443"},
        {},
    )

    assert config.allowed_hosts == ("rota", "*.example.org")
    assert config.allowed_origins == ("https://rota:8443",)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("allowed_hosts", each) for each in ("*", "rota:7400", "http://rota", "a.*.b", "a b")),
        *(
            ("allowed_origins", each)
            for each in ("*", "rota", "null", "https://rota/", "https://*")
        ),
    ],
)
def test_what_is_no_name_or_no_origin_is_refused(name: str, value: str) -> None:
    with pytest.raises(Refused, match=f"{name}: '.*' is not"):
        load_config(None, {}, {name: value})


def test_a_node_is_reached_under_its_listening_and_advertised_names() -> None:
    flags = {
        "listen": "Node:7400",
        "insecure": True,
        "advertise": "Rota-0.nodes.:7400",
        "allowed_hosts": "rota",
    }

    config = load_config(None, {}, flags)

    assert set(config.own_names) == {"node", "rota-0.nodes", "rota"}


def test_each_file_with_a_key_or_a_password_is_private() -> None:
    named = [
        each
        for each, setting in SETTINGS.items()
        if setting.values is config_values.FILE and ("key" in each or "password" in each)
    ]
    files: dict[str, Any] = {each: Path(f"/etc/rota/{each}") for each in named}  # Any: other types

    assert len(named) == 7
    assert set(NodeConfig(**files).private_files) == set(files.values())
