"""A node serves the web page."""

import json
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from support.rotad import Rotad


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_page_needs_no_key_and_has_the_headers_of_all_responses(
    own_node: Rotad, method: str
) -> None:
    own_node.flags += ("--auth", "keys")
    own_node.start()

    with urlopen(Request(own_node.url + "/ui/", method=method), timeout=10) as got:
        assert got.status == 200
        assert got.headers["X-Content-Type-Options"] == "nosniff"
        assert got.headers["Cache-Control"] == "no-cache"
        assert got.headers["Server"] == "rota"
        assert "default-src 'none'" in got.headers["Content-Security-Policy"]


def test_an_unknown_file_is_a_problem_document(node: Rotad) -> None:
    with pytest.raises(HTTPError) as caught:
        urlopen(node.url + "/ui/none.js", timeout=10)

    assert caught.value.status == 404
    assert caught.value.headers["Content-Type"] == "application/problem+json"
    assert caught.value.headers["Cache-Control"] == "no-store"
    assert json.load(caught.value)["code"] == "no_such_path"
    caught.value.close()
