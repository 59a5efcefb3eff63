"""A browser and its pages for tests."""

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from playwright.sync_api import Browser, Page

from rota.wire.tokens import ID_BYTES, SECRET_BYTES, mint
from support.key_rings import key_ring_file
from support.rotad import Rotad
from support.web_browser import make_jobs, opened_browser, watched_page

WITHIN_MS = 15_000
ADMIN = mint(bytes([7]) * (ID_BYTES + SECRET_BYTES)).text
REFUSED = "Failed to load resource: the server responded with a status of"
NUMBERS = count()
"""Numbers of keys: the tests of a module share a node."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for the tests of a module."""
    with opened_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def shown(node: Rotad) -> Rotad:
    """A node with jobs."""
    make_jobs(node)
    return node


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rotad]:
    """A node that requires keys, and has a key ring for secrets."""
    folder = tmp_path_factory.mktemp("guarded")
    token = folder / "token"
    token.write_text(ADMIN)
    flags = ("--auth", "keys", "--bootstrap-key-file", str(token), "--drain", "0s")
    with Rotad(folder / "data", *flags, "--keyring", str(key_ring_file(folder))) as node:
        node.token = ADMIN
        yield node.start()


@pytest.fixture
def open_as(guarded: Rotad, page: Page, expected: list[str]) -> Callable[..., None]:
    """A function that opens a view of the guarded node with a new key: of a role, in namespaces."""

    def open_it(role: str, view: str, namespaces: list[str] | None = None) -> None:
        name = f"{role}-{next(NUMBERS)}"
        body = {"name": name, "role": role, "namespaces": namespaces or ["*"]}
        made = guarded.call("POST", "/api/v1/keys", body)
        page.goto("about:blank")
        page.goto(f"{guarded.url}/ui/#/{view}")
        page.get_by_label("Key", exact=True).fill(made["token"])
        page.get_by_role("button", name="Sign in").click()

    expected.append(f"{REFUSED} 401")  # The page asks for a key after the first refusal.
    return open_it


@pytest.fixture
def expected() -> list[str]:
    """Beginnings of errors that a test expects: the browser itself reports each failed request."""
    return []


@pytest.fixture
def errors(expected: list[str]) -> Iterator[list[str]]:
    """The errors of the page, of which there are none in the end but those expected."""
    found: list[str] = []
    yield found
    assert [each for each in found if not each.startswith(tuple(expected))] == []


@pytest.fixture
def page(browser: Browser, errors: list[str]) -> Iterator[Page]:
    """A page of its own context; a test names its node first, so that it outlives the page."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(WITHIN_MS)
    yield watched_page(context, errors)
    context.close()
