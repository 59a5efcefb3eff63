"""The files of the web page, as they are sent."""

import gzip
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from yarl import URL

from rota.node.web.page_files import page_files
from rota.node.web.page_routes import ROOT, add_page


@pytest.fixture
async def page() -> AsyncIterator[ClientSession]:
    """A client of an application that serves the page alone; it does not follow or decode."""
    app = web.Application()
    add_page(app)
    async with TestServer(app) as server:
        url = server.make_url("/")
        async with ClientSession(url, auto_decompress=False) as session:
            yield session


async def test_the_index_is_asked_for_each_time_and_refers_to_files_that_exist(
    page: ClientSession,
) -> None:
    got = await page.get(ROOT)

    text = gzip.decompress(await got.read()).decode()
    assert got.status == 200
    assert got.headers["Content-Type"] == "text/html; charset=utf-8"
    assert got.headers["Cache-Control"] == "no-cache"
    assert [path for path in page_files() if path.startswith("assets/index") and path in text]
    assert "http" not in text


async def test_a_file_with_a_hash_in_its_name_is_kept_for_a_year(page: ClientSession) -> None:
    hashed = [path for path in page_files() if path.startswith("assets/")]

    for path in hashed:
        got = await page.get(ROOT + path)

        assert got.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert gzip.decompress(await got.read()) == page_files()[path].content
    assert hashed


async def test_the_policy_permits_own_files_alone_and_no_markup_from_data(
    page: ClientSession,
) -> None:
    got = await page.get(ROOT)

    policy = got.headers["Content-Security-Policy"].split("; ")
    assert policy[0] == "default-src 'none'"
    assert "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in got.headers["Content-Security-Policy"]
    assert got.headers["Referrer-Policy"] == "no-referrer"


async def test_a_client_without_gzip_gets_the_plain_bytes(page: ClientSession) -> None:
    got = await page.get(ROOT, headers={"Accept-Encoding": "identity"})

    assert "Content-Encoding" not in got.headers
    assert (await got.read()).startswith(b"<!doctype html>")


async def test_an_unchanged_index_is_not_sent_again(page: ClientSession) -> None:
    etag = (await page.get(ROOT)).headers["ETag"]

    got = await page.get(ROOT, headers={"If-None-Match": etag})

    assert got.status == 304
    assert await got.read() == b""


@pytest.mark.parametrize(
    "path",
    [
        "page_routes.py",
        "../page_files.py",
        "..%2Fpage_files.py",
        "%2e%2e/page_files.py",
        "assets/..%2f..%2fpage_files.py",
        "/etc/passwd",
        "assets",
        "assets/",
        "assets/none.js",
        "index.html%00",
    ],
)
async def test_a_path_that_is_no_file_of_the_page_is_unknown(
    page: ClientSession, path: str
) -> None:
    got = await page.get(URL(ROOT + path, encoded=True))

    assert got.status == 404


async def test_a_browser_is_sent_from_the_root_to_the_page(page: ClientSession) -> None:
    accepted = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

    got = await page.get("/", headers=accepted, allow_redirects=False)
    other = await page.get("/", headers={"Accept": "*/*"}, allow_redirects=False)

    assert (got.status, got.headers["Location"]) == (302, ROOT)
    assert other.status == 404


def test_all_files_together_are_small() -> None:
    sizes = {path: len(file.compressed) for path, file in page_files().items()}

    assert sum(sizes.values()) <= 120_000, sizes
