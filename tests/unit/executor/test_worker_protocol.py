"""Frames of a Python worker, to whose socket a user's code can write."""

import pytest

from rota.core.model.attempt import CHECKPOINT_BYTES_MAX, RESULT_BYTES_MAX
from rota.executor.python.worker_protocol import Frames, Garbled


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4) + body


@pytest.mark.parametrize(
    "body",
    [
        b'{"type":"told","percent":101}',
        b'{"type":"told","percent":-1}',
        b'{"type":"told","checkpoint":"' + b"x" * (CHECKPOINT_BYTES_MAX + 1) + b'"}',
        b'{"type":"ended","exit_code":-2}',
        b'{"type":"ended","exit_code":256}',
        b'{"type":"ended","cpu":' + b"9" * 23 + b"}",
        b'{"type":"ended","memory_peak":-1}',
        b'{"type":"ended","result":"' + b"x" * (RESULT_BYTES_MAX + 1) + b'"}',
        b'{"type":"ended","raised":' + b"[" * 100_000,
    ],
    ids=lambda body: body[:32].decode(),
)
def test_what_no_record_can_hold_is_no_message(body: bytes) -> None:
    with pytest.raises(Garbled):
        list(Frames().messages(framed(body)))


def test_the_largest_that_a_record_holds_is_a_message() -> None:
    result = b"x" * RESULT_BYTES_MAX

    messages = list(Frames().messages(framed(b'{"type":"ended","result":"' + result + b'"}')))

    assert len(messages) == 1
