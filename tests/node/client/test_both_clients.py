"""`Client` and `AsyncClient`: the same methods, attributes and documentation."""

import inspect
from typing import get_overloads

import pytest

from rota.client import AsyncClient, Client


def public_methods(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method).replace(return_annotation=None)
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") or name == "__init__"
    }


def signatures(kind: type, name: str) -> list[inspect.Signature]:
    """Return the signatures of a method's overloads, or its own signature."""
    method = getattr(kind, name)
    return [inspect.signature(each) for each in get_overloads(method) or [method]]


def blocking_form(annotation: str) -> str:
    """Return the blocking form of an asynchronous return annotation."""
    waited_for = annotation.replace(
        "collections.abc.Coroutine[typing.Any, typing.Any, bytes]", "<class 'bytes'>"
    )
    return waited_for.replace("AsyncGenerator", "Generator").replace(", None]", ", None, None]")


def test_both_clients_have_the_same_methods() -> None:
    assert public_methods(Client) == public_methods(AsyncClient)


def test_both_clients_have_the_same_attributes(url: str) -> None:
    one, other = AsyncClient(url), Client(url)

    assert one.url == other.url == url
    assert one.urls == other.urls == (url,)


@pytest.mark.parametrize("name", sorted(public_methods(Client)))
def test_both_clients_return_the_same(name: str) -> None:
    blocking = [str(each.return_annotation) for each in signatures(Client, name)]
    awaited = [str(each.return_annotation) for each in signatures(AsyncClient, name)]

    assert blocking == [blocking_form(each) for each in awaited]


@pytest.mark.parametrize("name", sorted(public_methods(Client)))
def test_both_clients_have_the_same_overloads(name: str) -> None:
    blocking, awaited = signatures(Client, name), signatures(AsyncClient, name)

    assert [each.parameters for each in blocking] == [each.parameters for each in awaited]


@pytest.mark.parametrize("name", sorted(set(public_methods(Client)) - {"__init__", "close"}))
def test_both_clients_have_the_same_docstrings(name: str) -> None:
    assert getattr(Client, name).__doc__ == getattr(AsyncClient, name).__doc__
