"""Requests that the API refuses before it handles them, such as those of pages of other origins."""

import pytest
from multidict import CIMultiDict

from rota.node.api.http.guard import KNOWN_MAX, Guard, host_name

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
PAGE = "https://evil.example"


def code_of(
    method: str,
    headers: dict[str, str],
    *,
    has_body: bool = False,
    authority: str | None = None,
    names: tuple[str, ...] = (),
    origins: tuple[str, ...] = (),
) -> str | None:
    """Return the code with which a request is refused, or None."""
    given = CIMultiDict({"Host": "127.0.0.1:7400", **headers})
    guard = Guard(names, origins)
    refusal = guard.refusal(method, given, has_body=has_body, authority=authority)
    return refusal.code if refusal else None


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site", "Origin": PAGE},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:8000"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://127.0.0.1:7400"},
        {"Sec-Fetch-Site": "something new"},
        {"Origin": PAGE},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://127.0.0.1:7400.evil.example"},
        {"Origin": "ftp://127.0.0.1:7400"},
    ],
)
def test_a_change_for_a_page_of_another_origin_is_refused(
    method: str, headers: dict[str, str]
) -> None:
    assert code_of(method, {**headers, "Content-Type": JSON}) == "cross_origin"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:7400"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://127.0.0.1:7400"},
        {"Origin": "https://127.0.0.1:7400"},
    ],
)
def test_a_change_for_no_page_or_one_of_this_origin_is_allowed(headers: dict[str, str]) -> None:
    assert code_of("POST", {**headers, "Content-Type": JSON}, has_body=True) is None


@pytest.mark.parametrize("site", [{}, {"Sec-Fetch-Site": "cross-site"}])
def test_a_change_for_a_page_of_an_allowed_origin_is_allowed(site: dict[str, str]) -> None:
    headers = {"Origin": "https://rota.example.org", **site}

    assert code_of("POST", headers, origins=("https://rota.example.org",)) is None
    assert code_of("POST", headers, origins=("https://rota.example",)) == "cross_origin"


def test_what_changes_nothing_may_be_asked_for_any_page() -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Origin": PAGE}

    assert [code_of(method, headers) for method in ("GET", "HEAD", "OPTIONS")] == [None] * 3


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_a_question_has_no_body(method: str) -> None:
    assert code_of(method, {"Content-Length": "4194304"}) == "unexpected_body"
    assert code_of(method, {"Transfer-Encoding": "chunked"}) == "unexpected_body"
    assert code_of(method, {"Content-Length": "0"}) is None
    # With an upgrade, as curl --http2 offers it, the server cannot know whether there is more.
    assert code_of(method, {"Upgrade": "h2c"}, has_body=True) is None


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.0.0.1:7400", "10.1.2.3:7400", "127.0.0.1.:7400", "[::1]", "[::1]:7400"),
        *("localhost", "LOCALHOST:7400", "localhost.", "rota.localhost:80", "localhost:"),
        *("rota", "Rota:7400", "rota.example.org.", "a.b.svc", "a.svc:7400"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_address_localhost_or_an_allowed_name_is_answered(method: str, host: str) -> None:
    names = ("rota", "rota.example.org", "*.svc", "")

    assert code_of(method, {"Host": host}, names=names) is None


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:7400", "127.0.0.1.evil.example", "localhost.evil.example"),
        *("evillocalhost", "xrota", "rota.evil.example", "svc", "asvc", "a.svc.evil.example"),
        *("", ":7400", ".", "[::1", "[::1]x", "[evil]", "::1", "localhost:7400:1", "localhost:x"),
        *("user@localhost", "localhost/", "localhost,evil.example", "*.svc\x00", "\udcff", "127.1"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST"])
def test_a_name_that_may_be_pointed_here_by_anybody_is_refused(method: str, host: str) -> None:
    names = ("rota", "*.svc", "")

    assert code_of(method, {"Host": host}, names=names) == "host_not_allowed"


def test_a_target_that_names_a_host_is_judged_by_it_too() -> None:
    assert code_of("GET", {}, authority="evil.example:7400") == "host_not_allowed"
    assert code_of("GET", {}, authority="localhost:7400") is None


def test_a_request_without_host_which_is_no_browsers_is_answered() -> None:
    assert Guard(()).refusal("GET", CIMultiDict[str](), has_body=False) is None


def test_a_refused_host_is_refused_again_and_many_allowed_ones_are_not_all_remembered() -> None:
    guard = Guard(())
    hosts = [f"h{number}.localhost" for number in range(2 * KNOWN_MAX)]

    def is_refused(host: str) -> bool:
        return guard.refusal("GET", CIMultiDict({"Host": host}), has_body=False) is not None

    assert not any(map(is_refused, hosts))
    assert is_refused("evil.example")
    assert is_refused("evil.example")
    assert not is_refused(hosts[0])


@pytest.mark.parametrize(
    ("method", "given", "has_body", "code"),
    [
        ("POST", None, True, "unsupported_media_type"),
        ("POST", FORM, True, "unsupported_media_type"),
        ("POST", "text/plain", True, "unsupported_media_type"),
        ("POST", "multipart/form-data; boundary=x", True, "unsupported_media_type"),
        ("POST", "application/octet-stream", True, "unsupported_media_type"),
        ("POST", "", True, "unsupported_media_type"),
        ("POST", "application/jsonx", True, "unsupported_media_type"),
        ("POST", "text/plain;application/json", True, "unsupported_media_type"),
        ("POST", FORM, False, "unsupported_media_type"),
        ("POST", "Text/Plain; charset=utf-8", False, "unsupported_media_type"),
        ("DELETE", "text/plain", False, "unsupported_media_type"),
        ("PATCH", FORM, True, "unsupported_media_type"),
        ("POST", "application/merge-patch+json", True, "unsupported_media_type"),
        ("POST", JSON, True, None),
        ("POST", "Application/JSON ; charset=utf-8", True, None),
        ("POST", None, False, None),
        ("POST", "application/octet-stream", False, None),
        ("PATCH", "application/merge-patch+json", True, None),
        ("DELETE", None, False, None),
        ("DELETE", JSON, True, None),
        ("GET", FORM, True, None),
    ],
)
def test_a_change_has_to_be_json_and_no_form(
    method: str, given: str | None, has_body: bool, code: str | None
) -> None:
    headers = {} if given is None else {"Content-Type": given}

    assert code_of(method, headers, has_body=has_body) == code


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("encoding", "code"),
    [
        *((each, "unsupported_encoding") for each in ("gzip", "GZIP", "identity, br", "x")),
        *((each, None) for each in ("identity", "Identity", "")),
    ],
)
def test_a_body_may_not_be_compressed(method: str, encoding: str, code: str | None) -> None:
    headers = {"Content-Type": JSON, "Content-Encoding": encoding}

    assert code_of(method, headers, has_body=True) == code


@pytest.mark.parametrize(
    ("headers", "advice"),
    [
        ({"Host": "jobs.example:7500"}, "allowed_hosts = ['jobs.example']"),
        ({"Origin": PAGE}, "allowed_origins"),
        ({"Content-Type": FORM}, "'Content-Type: application/json'"),
    ],
)
def test_a_refusal_says_what_to_change(headers: dict[str, str], advice: str) -> None:
    given = CIMultiDict({"Host": "localhost", **headers})

    refusal = Guard(()).refusal("POST", given, has_body=True)

    assert refusal is not None
    assert advice in refusal.detail


def test_a_refusal_repeats_no_long_or_broken_text() -> None:
    given = CIMultiDict({"Host": "\udcff" + "x" * 8_000})

    refusal = Guard(()).refusal("GET", given, has_body=False)

    assert refusal is not None
    assert refusal.detail.isascii()
    assert len(refusal.detail) < 500


@pytest.mark.parametrize(
    ("authority", "name"),
    [
        ("Rota.Example.:7400", "rota.example"),
        ("[2001:DB8::1]:7400", "2001:DB8::1"),
        ("a:b", ""),
        ("[::1]7400", ""),
        ("rota:\u0663", ""),
    ],
)
def test_a_host_is_read_without_its_port(authority: str, name: str) -> None:
    assert host_name(authority) == name


def test_names_that_requests_invent_are_remembered_within_a_limit() -> None:
    guard = Guard(("*.example",))

    for number in range(2 * KNOWN_MAX):
        given = CIMultiDict({"Host": f"n{number}.example"})
        assert guard.refusal("GET", given, has_body=False) is None

    assert len(guard._known) <= KNOWN_MAX  # pyright: ignore[reportPrivateUsage] - its memory.
