"""``rota login``, ``auth``, ``key`` and ``grant``: requests, messages, and the file of profiles."""

import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rota.client.cli.access.grants import binding_name
from rota.client.cli.inputs import settings
from rota.wire.tokens import ID_BYTES, SECRET_BYTES, mint, parse
from support.command_tree import commands, examples_of
from support.rota_program import NO_NODE, PROGRAM, Rota
from support.strange_servers import Handler, Strange, problem, serving_apart

Json = Any  # Any: JSON; each test reads the fields that it checks.

FIRST, SECOND = (mint(bytes([number]) * (ID_BYTES + SECRET_BYTES)) for number in (1, 2))
CALLER = {
    "principal": "ana",
    "tokenId": FIRST.id,
    "expiresAt": "2027-01-01T00:00:00.000000Z",
    "bindings": [{"role": "editor", "namespaces": ["team-a", "team-b-*"]}],
    "allowed": None,
}
MADE = {
    "name": "ci",
    "principal": "ci",
    "token": SECOND.text,
    "tokenId": SECOND.id,
    "expiresAt": None,
}


class Door:
    """A server that accepts one token, and answers each request from a table of documents.

    Attributes:
        accepted: The token that is accepted.
        documents: The definitions of the documents, by ``kind/name``.
        asked: Method, path with query, and body of each accepted request.
    """

    def __init__(self) -> None:
        self.accepted = FIRST.text
        self.documents: dict[str, Json] = {}
        self.asked: list[tuple[str, str, Json]] = []
        self.caller: Json = CALLER

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Return the answer to *request*."""
        if request.headers.get("Authorization") != f"Bearer {self.accepted}":
            return web.json_response(problem(401, "unauthenticated"), status=401)
        body = await request.json() if request.body_exists else None
        self.asked.append((request.method, request.path_qs, body))
        path = request.path.removeprefix("/api/v1/")
        if path == "whoami":
            return web.json_response(self.caller)
        if request.method == "POST":
            return web.json_response(MADE, status=201)
        if request.method == "PUT":
            self.documents[path] = body
            return web.json_response(self.view(path))
        if request.method == "DELETE":
            found = self.documents.pop(path, None)
            missing = web.json_response(problem(404, "key_not_found"), status=404)
            return missing if found is None else web.Response(status=204)
        items = [self.view(each) for each in self.documents if each.startswith(f"{path}/")]
        return web.json_response({"items": items, "nextCursor": None})

    def view(self, path: str) -> Json:
        """Return the view of a document."""
        kind, _, name = path.partition("/")
        return {
            "kind": kind,
            "name": name,
            "definition": self.documents[path],
            "version": 1,
            "changedAt": "2026-01-01T00:00:00.000000Z",
            "changedBy": "admin",
        }


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def rota(
    rota_alone: Rota, door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Rota]:
    """The command ``rota`` with the URL of the server, and a token."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "token").write_text(FIRST.text)
    with serving_apart(Strange(door.answer)) as url:
        monkeypatch.setenv("ROTA_URL", url)
        monkeypatch.setenv("ROTA_TOKEN_FILE", str(tmp_path / "token"))
        yield rota_alone


@pytest.fixture
def without_token(rota: Rota, monkeypatch: pytest.MonkeyPatch) -> Rota:
    monkeypatch.delenv("ROTA_TOKEN_FILE")
    return rota


def logged_in(*argv: str, text: str = FIRST.text) -> subprocess.CompletedProcess[str]:
    """Run ``rota login`` with a token on standard input."""
    return subprocess.run(
        [*PROGRAM, "login", *argv], input=text, capture_output=True, text=True, timeout=30
    )


# -- the token of a command ------------------------------------------------------------------------


def test_a_command_without_a_token_ends_with_10_and_names_the_remedy(without_token: Rota) -> None:
    ran = without_token("auth", "whoami")

    assert ran.status == 10
    assert ran.err.splitlines()[0] == "error: unauthenticated (no token was sent)"
    assert "an administrator creates tokens with `rota key create`" in ran.err


def test_an_error_as_json_has_what_was_sent(without_token: Rota) -> None:
    ran = without_token("jobs", "-o", "json")

    assert json.loads(ran.err)["detail"] == "unauthenticated (no token was sent)"
    assert json.loads(ran.err)["code"] == "unauthenticated"


def test_a_forbidden_command_ends_with_4(rota_alone: Rota, monkeypatch: pytest.MonkeyPatch) -> None:
    async def forbid(request: web.Request) -> web.StreamResponse:
        del request
        return web.json_response(problem(403, "forbidden"), status=403)

    with serving_apart(Strange(forbid)) as url:
        ran = rota_alone("jobs", "--url", url)

    assert ran.status == 4
    assert "hint: `rota auth whoami` shows your roles" in ran.err


def test_the_file_of_the_flag_comes_before_that_of_the_variable(
    rota: Rota, tmp_path: Path, door: Door
) -> None:
    other = tmp_path / "other"
    other.write_text(SECOND.text)
    door.accepted = SECOND.text

    assert rota("auth", "whoami").status == 10
    assert rota("auth", "whoami", "--token-file", str(other)).status == 0
    assert rota("--token-file", str(other), "auth", "whoami").status == 0
    assert rota("auth", "token", "--token-file", str(other)).out == f"{SECOND.text}\n"


def test_a_malformed_token_ends_with_9_and_is_not_shown(rota: Rota, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(FIRST.text[:-1])

    ran = rota("auth", "whoami")

    assert ran.status == 9
    assert "checksum is wrong" in ran.err
    assert FIRST.text[:-1] not in ran.err


def test_without_any_token_there_is_none_to_print(without_token: Rota) -> None:
    ran = without_token("auth", "token")

    assert (ran.status, ran.out) == (10, "")
    assert "error: there is no token for http://127.0.0.1:" in ran.err


def test_a_new_token_is_printed_without_a_node(rota_alone: Rota) -> None:
    made = [rota_alone("auth", "token", "--new", "--url", NO_NODE) for _ in range(2)]

    assert [each.status for each in made] == [0, 0]
    assert parse(made[0].out.strip()) is not None
    assert made[0].out != made[1].out


def test_a_token_in_clear_text_is_warned_about_once(rota: Rota) -> None:
    ran = rota("auth", "whoami", "--url", "http://192.0.2.1:1", "--request-timeout", "0.1s")

    assert ran.err.count("without TLS") == 1
    assert ran.err.startswith("warning: a token is sent to http://192.0.2.1:1")


# -- profiles --------------------------------------------------------------------------------------


def test_login_checks_and_stores_a_token_that_later_commands_send(without_token: Rota) -> None:
    done = logged_in(text=f"{FIRST.text}\n")

    file = settings.config_path()
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("as ana; profile default has the token\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert f'token = "{FIRST.text}"' in file.read_text()
    assert without_token("auth", "whoami").status == 0
    assert without_token("auth", "token").out == f"{FIRST.text}\n"


def test_login_does_not_replace_a_profile_of_another_cluster_unless_it_is_named(
    without_token: Rota, door: Door
) -> None:
    file = settings.config_path()
    without_token("config", "set", "url", "https://rota.example:7400")
    before = file.read_text()

    refused = logged_in()
    kept, asked = file.read_text(), list(door.asked)
    beside = logged_in("--profile", "local")
    named = logged_in("--profile", "default")

    assert refused.returncode == 2
    assert "profile default is for https://rota.example:7400, and its URL" in refused.stderr
    assert (kept, asked) == (before, [])
    assert (beside.returncode, named.returncode) == (0, 0)
    assert "rota.example" not in file.read_text()


def test_a_first_key_is_not_created_if_its_profile_is_that_of_another_cluster(
    without_token: Rota, tmp_path: Path
) -> None:
    without_token("config", "set", "url", "https://rota.example:7400")

    # There is no socket in this folder; asking it would end with another status.
    refused = without_token("auth", "init", "--data-dir", str(tmp_path), "--save")

    assert refused.status == 2
    assert "profile default is for https://rota.example:7400" in refused.err


def test_a_new_token_for_the_same_cluster_is_stored(without_token: Rota) -> None:
    del without_token

    assert [logged_in().returncode, logged_in().returncode] == [0, 0]


def test_login_stores_no_token_that_is_refused(without_token: Rota, door: Door) -> None:
    del without_token
    door.accepted = SECOND.text

    done = logged_in()

    assert done.returncode == 10
    assert not settings.config_path().exists()


def test_login_with_a_file_names_the_form_that_reads_it(rota: Rota, tmp_path: Path) -> None:
    refused = rota("login", "--token-file", str(tmp_path / "token"))

    assert refused.status == 2
    assert "rota login < FILE" in refused.err


def test_login_creates_the_profile_that_is_named(without_token: Rota) -> None:
    done = logged_in("--profile", "work")

    assert done.returncode == 0, done.stderr
    assert without_token("auth", "whoami", "--profile", "work").status == 0
    assert without_token("auth", "whoami").status == 10


def test_the_token_of_a_profile_is_not_sent_to_the_url_of_a_flag(without_token: Rota) -> None:
    logged_in()
    elsewhere = Door()

    with serving_apart(Strange(elsewhere.answer)) as url:
        ran = without_token("auth", "whoami", "--url", url)

    assert ran.status == 10
    assert "no token was sent" in ran.err
    assert "the token of a profile is sent to the url of that profile only" in ran.err


def test_logout_removes_the_token_and_keeps_the_url(without_token: Rota) -> None:
    logged_in()

    done = without_token("logout")

    assert done.status == 0
    assert "removed the token from profile default" in done.err
    assert set(settings.read_profiles().by_name["default"]) == {"url"}
    assert without_token("logout").err == "profile default has no token\n"


def test_no_command_shows_the_token_of_a_profile(without_token: Rota) -> None:
    logged_in()

    for argv in (("show",), ("show", "-o", "json"), ("profiles",), ("profiles", "-o", "yaml")):
        shown = without_token("config", *argv)
        assert f"(token {FIRST.id})" in shown.out
        assert FIRST.text not in shown.out + shown.err


def test_a_token_is_no_argument_of_config_set(rota_alone: Rota) -> None:
    refused = rota_alone("config", "set", "token", FIRST.text)

    assert refused.status == 2
    assert "run `rota login`" in refused.err


def test_the_file_of_a_profile_is_an_absolute_path(without_token: Rota, tmp_path: Path) -> None:
    refused = without_token("config", "set", "token_file", "token")
    url = os.environ["ROTA_URL"]
    without_token("config", "set", "url", url)
    without_token("config", "set", "token_file", str(tmp_path / "token"))

    assert refused.status == 2
    assert without_token("auth", "whoami").status == 0


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_with_a_token_that_others_can_access_is_refused(
    without_token: Rota, mode: int
) -> None:
    logged_in()
    file = settings.config_path()
    file.chmod(mode)

    refused = without_token("auth", "whoami")

    assert refused.status == 9
    assert f"run chmod 600 {file}" in refused.err


def test_a_file_without_tokens_may_be_readable_by_others(rota_alone: Rota) -> None:
    rota_alone("config", "set", "namespace", "mine")
    settings.config_path().chmod(0o644)

    assert rota_alone("config", "show").status == 0


# -- auth ------------------------------------------------------------------------------------------


def test_whoami_shows_principal_and_roles(rota: Rota) -> None:
    shown = rota("auth", "whoami")

    assert shown.out.splitlines() == [
        "principal  ana",
        f"at         {os.environ['ROTA_URL']} ($ROTA_URL)",
        f"token      {FIRST.id}",
        "expires    2027-01-01 00:00:00 UTC",
        "",
        "ROLE    NAMESPACES",
        "editor  team-a team-b-*",
    ]
    assert rota("auth", "whoami", "-o", "json").json == CALLER


@pytest.mark.parametrize(("allowed", "status", "word"), [(True, 0, "yes"), (False, 1, "no")])
def test_can_ends_with_1_without_the_verb(
    rota: Rota, door: Door, allowed: bool, status: int, word: str
) -> None:
    door.caller = {**CALLER, "allowed": allowed}

    ran = rota("auth", "can", "run", "team-a")

    assert (ran.status, ran.out) == (status, f"{word}\n")
    assert door.asked == [("GET", "/api/v1/whoami?namespace=team-a&verb=run", None)]


def initializing(asked: list[tuple[str, Json]], status: int = 201) -> Handler:
    """Return the answer of the socket of a node."""

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append((request.path, await request.json()))
        body = {**MADE, "name": "admin", "principal": "admin"}
        refused = problem(409, "already_initialized")
        return web.json_response(body if status == 201 else refused, status=status)

    return answer


def test_init_prints_the_token_once_on_standard_output(rota_alone: Rota, tmp_path: Path) -> None:
    # Longer than the address of a socket may be.
    data_dir = tmp_path / ("d" * 100)
    data_dir.mkdir()
    asked: list[tuple[str, Json]] = []

    here = Path.cwd()
    os.chdir(data_dir)
    try:
        with serving_apart(Strange(initializing(asked)), Path("api.sock")):
            ran = rota_alone("auth", "init", "--data-dir", str(data_dir), "--name", "root")
    finally:
        os.chdir(here)

    assert (ran.status, ran.out) == (0, f"{SECOND.text}\n")
    assert SECOND.text not in ran.err
    assert "it is shown only once" in ran.err
    assert asked == [("/api/v1/auth:init", {"name": "root"})]


def test_init_stores_the_token_on_request(
    rota_alone: Rota, tmp_path: Path, short_folder: Path
) -> None:
    del tmp_path
    with serving_apart(Strange(initializing([])), short_folder / "api.sock"):
        ran = rota_alone("auth", "init", "--data-dir", str(short_folder), "--save")

    assert (ran.status, ran.out) == (0, "")
    assert settings.read_profiles().by_name["default"] == {
        "url": "http://127.0.0.1:7400",
        "token": SECOND.text,
    }


def test_init_prints_a_token_that_cannot_be_stored(
    rota_alone: Rota, short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = short_folder / "file"
    blocked.touch()
    monkeypatch.setattr(settings, "config_path", lambda: blocked / "config.toml")
    monkeypatch.setattr(settings, "read_profiles", settings.Profiles)

    with serving_apart(Strange(initializing([])), short_folder / "api.sock"):
        ran = rota_alone("auth", "init", "--data-dir", str(short_folder), "--save")

    assert (ran.status, ran.out) == (9, f"{SECOND.text}\n")


def test_init_of_a_cluster_with_keys_is_a_conflict(rota_alone: Rota, short_folder: Path) -> None:
    with serving_apart(Strange(initializing([], 409)), short_folder / "api.sock"):
        ran = rota_alone("auth", "init", "--data-dir", str(short_folder))

    assert ran.status == 5
    assert ran.err == "error: already_initialized\n"


@pytest.mark.parametrize("has_folder", [True, False])
def test_init_without_a_node_reports_where_to_run_it(
    rota_alone: Rota, tmp_path: Path, has_folder: bool
) -> None:
    data_dir = tmp_path if has_folder else tmp_path / "absent"

    ran = rota_alone("auth", "init", "--data-dir", str(data_dir))

    assert ran.status == 6
    assert f"no answer at {data_dir}/api.sock: No such file or directory; run this on" in ran.err


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path is short enough for a socket."""
    import tempfile

    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


# -- keys ------------------------------------------------------------------------------------------


def test_a_created_key_prints_the_token_alone_on_standard_output(rota: Rota, door: Door) -> None:
    ran = rota(
        *("key", "create", "ci", "--role", "editor", "--namespace", "team-a"),
        *("--namespace", "team-b-*", "--expires", "90d", "--from", "10.0.0.0/8"),
    )

    assert (ran.status, ran.out) == (0, f"{SECOND.text}\n")
    assert SECOND.id in ran.err
    assert SECOND.text not in ran.err
    body = {"name": "ci", "expiresIn": "90d", "from": ["10.0.0.0/8"]}
    body |= {"role": "editor", "namespaces": ["team-a", "team-b-*"]}
    assert door.asked == [("POST", "/api/v1/keys", body)]
    assert rota("key", "create", "ci", "-o", "json").json == MADE


def test_a_role_without_a_namespace_is_wrong_usage(rota: Rota) -> None:
    ran = rota("key", "create", "ci", "--role", "editor")

    assert ran.status == 2
    assert "--role and --namespace belong together" in ran.err


def test_keys_are_listed_with_the_public_parts_of_their_tokens(rota: Rota, door: Door) -> None:
    token = {"id": FIRST.id, "expiresAt": "2027-01-01T00:00:00.000000Z"}
    door.documents["keys/ci"] = {
        "principal": "ci",
        "from": ["10.0.0.0/8"],
        "tokens": [token, {"id": SECOND.id}],
    }
    door.documents["keys/laptop"] = {"principal": "ana", "tokens": [token]}

    listed = rota("key", "list").out.splitlines()

    assert listed[0].split() == ["NAME", "PRINCIPAL", "TOKENS", "EXPIRES", "(UTC)", "FROM"]
    assert listed[1].split() == ["ci", "ci", FIRST.id, SECOND.id, "-", "10.0.0.0/8"]
    assert listed[2].split() == ["laptop", "ana", FIRST.id, "2027-01-01", "00:00:00"]
    assert [each["name"] for each in rota("get", "keys", "-o", "json").json] == ["ci", "laptop"]


def test_a_rotated_key_prints_its_new_token(rota: Rota, door: Door) -> None:
    ran = rota("key", "rotate", "ci", "--grace", "2h")

    assert (ran.status, ran.out) == (0, f"{SECOND.text}\n")
    assert door.asked == [("POST", "/api/v1/keys/ci/rotate", {"grace": "2h"})]


def test_a_revoked_key_is_deleted(rota: Rota, door: Door) -> None:
    door.documents["keys/ci"] = {}

    done, again = rota("key", "revoke", "ci"), rota("key", "revoke", "ci")

    assert (done.status, done.err) == (0, "revoked key ci\n")
    assert door.asked[0] == ("DELETE", "/api/v1/keys/ci", None)
    assert again.status == 3


# -- grants ----------------------------------------------------------------------------------------


def bindings(door: Door) -> list[Json]:
    return list(door.documents.values())


def test_a_grant_is_a_binding_that_later_grants_extend(rota: Rota, door: Door) -> None:
    first = rota("grant", "ana", "editor", "team-a")
    rota("grant", "ana", "editor", "team-b-*", "team-a")
    again = rota("grant", "ana", "editor", "team-a")
    rota("grant", "cert:build-01", "editor", "*", "--dry-run")

    assert first.status == 0
    assert first.err.startswith("granted editor in team-a to principal:ana\n")
    assert again.err == "principal:ana has the role editor in team-a already\n"
    assert bindings(door)[0] == {
        "subject": "principal:ana",
        "role": "editor",
        "namespaces": ["team-a", "team-b-*"],
    }
    assert door.asked[-1][1].endswith("?dryRun=true")


def test_a_grant_to_a_subject_without_a_key_names_the_next_command(rota: Rota, door: Door) -> None:
    without = rota("grant", "ana", "editor", "team-a")
    dry = rota("grant", "eve", "editor", "team-a", "--dry-run")
    of_group = rota("grant", "group:corp/devs", "editor", "team-a")
    door.documents["keys/laptop"] = {"principal": "ana", "tokens": []}
    door.documents["issuers/corp"] = {"issuer": "https://corp.example"}
    others = [
        rota("grant", subject, "viewer", "team-a")
        for subject in ("ana", "group:corp/devs", "cert:build")
    ]

    assert without.err.splitlines()[1:] == ["ana has no key yet; create one: rota key create ana"]
    assert "no key" not in dry.err
    assert "there is no issuer corp yet; define it in a file" in of_group.err
    assert [len(each.err.splitlines()) for each in others] == [1, 1, 1]


def test_a_new_key_of_a_principal_without_a_role_names_the_next_command(
    rota: Rota, door: Door
) -> None:
    without = rota("key", "create", "ci")
    door.documents["bindings/b"] = {"subject": "principal:ci", "role": "viewer", "namespaces": []}
    bound = rota("key", "create", "ci")

    assert without.err.endswith("give it one: rota grant ci viewer default\n")
    assert "no role" not in bound.err


def test_a_grant_leaves_the_binding_of_another_author(rota: Rota, door: Door) -> None:
    given = {"subject": "principal:ci", "role": "viewer", "namespaces": ["team-a"]}
    door.documents["bindings/key-ci"] = given

    rota("grant", "ci", "viewer", "team-b")

    assert bindings(door) == [given, {**given, "namespaces": ["team-b"]}]


def test_a_role_is_taken_in_some_namespaces_or_in_all(rota: Rota, door: Door) -> None:
    given = {"subject": "principal:ci", "role": "viewer", "namespaces": ["team-a"]}
    door.documents["bindings/key-ci"] = given
    rota("grant", "ci", "viewer", "team-b", "team-c")

    some = rota("ungrant", "ci", "viewer", "team-a", "team-b")
    left = bindings(door)
    rest = rota("ungrant", "ci", "viewer")

    assert some.err == "took viewer in team-a, team-b from principal:ci\n"
    assert left == [{**given, "namespaces": ["team-c"]}]
    assert rest.err == "took viewer from principal:ci\n"
    assert bindings(door) == []


def test_a_role_that_was_not_granted_cannot_be_taken(rota: Rota, door: Door) -> None:
    rota("grant", "ci", "viewer", "team-b")

    missing = rota("ungrant", "ci", "viewer", "team-b", "team-a")
    none = rota("ungrant", "ana", "viewer")

    assert missing.status == none.status == 3
    assert missing.err.startswith(
        "error: principal:ci was not granted viewer in team-a; its namespaces are team-b\n"
    )
    assert len(bindings(door)) == 1


def test_names_of_bindings_are_valid_and_differ() -> None:
    subjects = ("principal:ana", "principal-ana", "cert:ä/" + "x" * 300, "cert:..", "principal:A")
    names = {binding_name(subject, role) for subject in subjects for role in ("viewer", "--")}

    assert len(names) == 2 * len(subjects)
    for name in names:
        assert len(name) <= 128
        assert name.replace("-", "").replace("_", "").isalnum()
        assert name.isascii()
        assert name[0].isalnum()
        assert name[-1].isalnum()


@pytest.mark.parametrize("word", ["keys", "key", "roles", "role", "bindings", "binding"])
def test_keys_roles_and_bindings_are_kinds_of_documents(rota: Rota, door: Door, word: str) -> None:
    assert rota("get", word).status == 0
    assert door.asked[-1][1].startswith(f"/api/v1/{word.removesuffix('s')}s?")


# -- examples --------------------------------------------------------------------------------------


EXAMPLES = [
    line
    for group in ("login", "logout", "auth", "key", "grant", "ungrant")
    for name, command in commands()
    if name.split()[1:2] == [group]
    for line in examples_of(command)
]
"""The examples in the help texts of these commands."""


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
@pytest.mark.parametrize("example", dict.fromkeys(EXAMPLES))
def test_every_example_works(rota: Rota, door: Door, short_folder: Path, example: str) -> None:
    for name in ("ci", "laptop"):
        door.documents[f"keys/{name}"] = {"principal": name, "tokens": []}
    rota("grant", "ana", "editor", "team-a", "team-b")
    (short_folder / "token").write_text(FIRST.text)
    (short_folder / "rota-data").mkdir()
    program = short_folder / "rota"
    program.write_text(f"#!/bin/sh\nexec {PROGRAM[0]} -c '{PROGRAM[2]}' \"$@\"\n")
    program.chmod(0o755)
    line = re.sub(r"https?://[\w.]+:7400", os.environ["ROTA_URL"], example)
    takes_input = example.startswith("rota login") and "<" not in example

    with serving_apart(Strange(initializing([])), short_folder / "rota-data" / "api.sock"):
        ran = subprocess.run(
            ["bash", "-ec", f"{line} < token" if takes_input else line],
            cwd=short_folder,
            env={**os.environ, "PATH": f"{short_folder}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=30,
        )

    # The caller has no answer to `rota auth can`.
    assert ran.returncode == (1 if "auth can" in example else 0), ran.stderr
