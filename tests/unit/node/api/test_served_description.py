"""The description of the API, which is built once, on the first request."""

import asyncio
from threading import get_ident

import pytest

from rota.node.api.reference.served_description import Description

DOCUMENT = b"{}"


def test_nothing_is_made_before_it_is_asked_for_and_then_once_beside_the_loop() -> None:
    threads: list[int] = []

    def make() -> bytes:
        threads.append(get_ident())
        return DOCUMENT

    async def story() -> None:
        description = Description(make)
        await asyncio.sleep(0)
        assert not threads

        found = await asyncio.gather(*(description.document() for _ in range(3)))

        assert found == [DOCUMENT] * 3
        assert len(threads) == 1
        assert threads[0] != get_ident()

    asyncio.run(story())


def test_a_description_that_could_not_be_made_is_tried_again() -> None:
    tries = iter((MemoryError(), DOCUMENT))

    def make() -> bytes:
        found = next(tries)
        if isinstance(found, MemoryError):
            raise found
        return found

    async def story() -> None:
        description = Description(make)
        with pytest.raises(MemoryError):
            await description.document()

        assert await description.document() is DOCUMENT

    asyncio.run(story())
