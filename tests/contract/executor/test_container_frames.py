"""Decoding of a container engine's output stream."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rota.executor.container.stream_frames import Frames


def framed(contents: list[tuple[int, bytes]]) -> bytes:
    """Return *contents*, each with the number of its stream, as an engine sends them."""
    return b"".join(
        bytes((stream, 0, 0, 0)) + len(content).to_bytes(4, "big") + content
        for stream, content in contents
    )


@given(
    contents=st.lists(st.tuples(st.sampled_from((1, 2)), st.binary(max_size=40))),
    cuts=st.lists(st.integers(0, 400)),
)
def test_contents_come_out_whole_wherever_the_stream_is_cut(
    contents: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    stream = framed(contents)
    edges = [0, *sorted(cuts), len(stream)]
    frames = Frames()

    found = [frames.feed(stream[begin:end]) for begin, end in pairwise(edges)]

    assert b"".join(found) == b"".join(content for _, content in contents)


def test_content_of_a_frame_that_is_not_whole_comes_out_at_once() -> None:
    frames = Frames()

    found = frames.feed(framed([(1, b"progress")])[:-4])

    assert found == b"prog"
