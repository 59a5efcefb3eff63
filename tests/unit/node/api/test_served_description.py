"""The description of the API, which is built once, on the first request."""

import asyncio
from threading import get_ident

import pytest

from rota.node.api.reference.served_description import Description, Documents

DOCUMENTS = Documents(b"{}", "<html>")


def test_nothing_is_made_before_it_is_asked_for_and_then_once_beside_the_loop() -> None:
    threads: list[int] = []

    def make() -> Documents:
        threads.append(get_ident())
        return DOCUMENTS

    async def story() -> None:
        description = Description(make)
        await asyncio.sleep(0)
        assert not threads

        found = await asyncio.gather(*(description.documents() for _ in range(3)))

        assert found == [DOCUMENTS] * 3
        assert len(threads) == 1
        assert threads[0] != get_ident()

    asyncio.run(story())


def test_a_description_that_could_not_be_made_is_tried_again() -> None:
    tries = iter((MemoryError(), DOCUMENTS))

    def make() -> Documents:
        found = next(tries)
        if isinstance(found, MemoryError):
            raise found
        return found

    async def story() -> None:
        description = Description(make)
        with pytest.raises(MemoryError):
            await description.documents()

        assert await description.documents() is DOCUMENTS

    asyncio.run(story())
