"""Masking: no form of a value is left, and the pieces of a stream do not matter."""

import base64
import json
import re
from time import thread_time
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.model.attempt import Ending, Outcome, Raised, Report
from rota.core.timing.instants import Instant
from rota.executor.masking import (
    MASK,
    Masker,
    forms_of,
    masked,
    masked_ending,
    masked_json,
    masked_report,
)

VALUE = b'Tr0ub4dor&3 "/\\\xc3\xa9?'
FORMS = forms_of([VALUE])

SMALL = st.text("ab", min_size=1, max_size=12).map(str.encode)
"""Texts of two letters: values overlap each other and themselves as often as possible."""


def in_pieces(data: bytes, forms: tuple[bytes, ...], cuts: list[int]) -> bytes:
    masker, at, out = Masker(forms), 0, b""
    for cut in (*sorted(cuts), len(data)):
        out += masker.feed(data[at:cut])
        at = max(at, cut)
    return out + masker.rest()


def reference(data: bytes, forms: tuple[bytes, ...]) -> bytes:
    """Return *data* masked by the definition: each byte of an occurrence, runs as one mask."""
    covered = bytearray(len(data))
    for form in forms:
        for at in range(len(data)):
            if data.startswith(form, at):
                covered[at : at + len(form)] = b"\1" * len(form)
    out = b""
    for at, each in enumerate(covered):
        if not each:
            out += data[at : at + 1]
        elif at == 0 or not covered[at - 1]:
            out += MASK
    return out


@given(st.lists(SMALL, min_size=1, max_size=4), st.text("ab", max_size=60).map(str.encode))
def test_all_occurrences_are_masked_also_overlapping_ones(forms: list[bytes], data: bytes) -> None:
    assert masked(data, tuple(forms)) == reference(data, tuple(forms))


@given(
    st.lists(SMALL, min_size=1, max_size=4),
    st.text("ab", max_size=60).map(str.encode),
    st.lists(st.integers(0, 60), max_size=6),
)
def test_the_pieces_of_a_stream_do_not_matter(
    forms: list[bytes], data: bytes, cuts: list[int]
) -> None:
    assert in_pieces(data, tuple(forms), cuts) == reference(data, tuple(forms))


def test_a_value_is_masked_at_every_split_point_and_byte_by_byte() -> None:
    data = b"user=app password=" + VALUE + b"; again " + base64.b64encode(b"app:" + VALUE)

    whole = masked(data, FORMS)

    assert VALUE not in whole
    assert {in_pieces(data, FORMS, [cut]) for cut in range(len(data))} == {whole}
    assert in_pieces(data, FORMS, list(range(len(data)))) == whole


def test_many_beginnings_of_a_value_are_held_back_and_lose_nothing() -> None:
    """More beginnings than are compared: more is held back, and the output is the same."""
    form = b"a" * 500 + b"b"
    data = b"a" * 2_000 + b"c" + form + b"a" * 300

    assert in_pieces(data, (form,), [700, 1_400, 2_200]) == reference(data, (form,))


@pytest.mark.parametrize("unit", [b"a", b"ab", b"a" * 20 + b"b"])
def test_a_value_that_repeats_itself_takes_no_time_of_other_attempts(unit: bytes) -> None:
    """The warden masks for all attempts: one that prints its value must not stop the others."""
    length, began = 1 << 15, thread_time()

    found = masked(unit * (4 * length // len(unit)), forms_of([unit * (length // len(unit))]))

    assert found == MASK
    assert thread_time() - began < 2  # It takes 20 ms; 3 s and more with all comparisons.


def test_output_that_cannot_be_the_beginning_of_a_value_is_not_held_back() -> None:
    masker = Masker(FORMS)

    assert masker.feed(b"step 1 done\n") == b"step 1 done\n"


@pytest.mark.parametrize(
    "written",
    [
        VALUE,
        base64.b64encode(VALUE),
        base64.urlsafe_b64encode(VALUE),
        base64.b64encode(b"u:" + VALUE + b"tail"),
        base64.b64encode(b"us:" + VALUE),
        quote(VALUE).encode(),
        quote(VALUE, safe="").encode(),
        quote_plus(VALUE).encode(),
        re.sub("%..", lambda each: each[0].lower(), quote(VALUE, safe="")).encode(),
        json.dumps({"password": VALUE.decode()}).encode(),
        json.dumps({"password": VALUE.decode()}, ensure_ascii=False).encode(),
        json.dumps({"password": VALUE.decode()}).replace("/", "\\/").encode(),
        json.dumps({"password": VALUE.decode()}).replace("&", "\\u0026").encode(),
    ],
)
def test_a_value_is_masked_in_each_of_its_usual_forms(written: bytes) -> None:
    found = masked(b"before " + written + b" after", FORMS)

    assert MASK in found
    assert b"before" in found
    assert b"Tr0ub4dor" not in found
    # In base64, at most the characters at the two ends that neighbours share are left.
    assert len(found) <= len(b"before  after") + len(MASK) + 30


def test_a_value_without_its_final_newline_is_masked() -> None:
    assert masked(b"pw=correct horse;", forms_of([b"correct horse\n"])) == b"pw=***;"


def test_each_line_of_a_value_of_several_lines_is_masked() -> None:
    value = b"-----BEGIN-----\nMIIBVQIBADANBgkq\nhkiG9w0BAQEFAASC\n"

    assert masked(b"> MIIBVQIBADANBgkq\r\n", forms_of([value])) == b"> ***\r\n"


def test_values_of_fewer_than_eight_bytes_are_left() -> None:
    assert forms_of([b"1234567", b"a\nb\nc"]) == ()
    assert masked(b"x 12345678", forms_of([b"12345678"])) == b"x ***"


def test_what_an_attempt_determines_in_its_ending_is_masked() -> None:
    text = VALUE.decode()
    ending = Ending(
        outcome=Outcome.FAILED,
        started_at=Instant(1),
        finished_at=Instant(2),
        reason=f"cannot connect with {text}",
        output=b"> " + VALUE,
        result=json.dumps({"url": text}).encode(),
        raised=Raised(
            type="E", bases=("B",), message=f"no {text}", traceback=f"line 1\nE: no {text}"
        ),
        left_running=f"psql {text} was left running",
    )

    found = masked_ending(ending, FORMS)

    assert found.reason == "cannot connect with ***"
    assert found.output == b"> ***"
    assert msgspec.json.decode(found.result) == {"url": "***"}
    assert found.raised == Raised(
        type="E", bases=("B",), message="no ***", traceback="line 1\nE: no ***"
    )
    assert found.left_running == "psql *** was left running"


def test_a_result_stays_json() -> None:
    assert masked_json(b'{"pin": 12345678}', forms_of([b"12345678"])) == b'"***"'
    assert masked_json(b'["other"]', forms_of([b"12345678"])) == b'["other"]'


def test_a_checkpoint_is_masked() -> None:
    report = Report(percent=3, checkpoint=b"at " + VALUE)

    assert masked_report(report, FORMS) == Report(percent=3, checkpoint=b"at ***")


@pytest.mark.parametrize(
    "name", ["correct horse b", "correct-horse", "x correct horse", "'a\\\\b corr\\xe9ct h'"]
)
def test_a_name_of_a_process_that_ends_within_a_value_is_masked(name: str) -> None:
    values = [b"correct horse battery", b"correct-horse", "a\\b corr\xe9ct horse".encode()]
    ending = Ending(
        outcome=Outcome.SUCCEEDED,
        started_at=Instant(1),
        finished_at=Instant(2),
        left_running=f"2 processes that it left running were killed: sh, {name}",
    )

    found = masked_ending(ending, forms_of(values)).left_running

    assert "***" in found
    assert "horse" not in found
    assert "corr" not in found
    assert found.startswith("2 processes that it left running were killed: sh, ")
