"""Accepted trace headers, and their way to an attempt."""

import pytest

from rota.core.vocabulary.commands import Trigger
from rota.core.vocabulary.decision import Triggered
from rota.core.vocabulary.effects import Launch
from rota.node.api.requests.tracing import checked_traceparent
from unit.core.shard import Shard

TRACE = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (f"00-{TRACE}", f"00-{TRACE}"),
        (f" 00-{TRACE} ", f"00-{TRACE}"),
        (f"cc-{TRACE}", f"00-{TRACE}"),
        (f"cc-{TRACE}-what-comes", f"00-{TRACE}"),
        (f"00-{TRACE}-more", ""),
        (f"cc-{TRACE}.", ""),
        (f"ff-{TRACE}", ""),
        (f"00-{TRACE.upper()}", ""),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", ""),
        (f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01", ""),
        (f"00-{TRACE[:-1]}", ""),
        ("", ""),
    ],
)
def test_a_trace_is_kept_if_it_is_one(given: str, kept: str) -> None:
    assert checked_traceparent(given) == kept


def test_a_trace_stays_with_the_execution_and_reaches_its_attempts() -> None:
    shard = Shard()
    job_id = shard.save()

    made = shard.do(Trigger(job_id=job_id, traceparent=f"00-{TRACE}"))
    [launch] = shard.all_effects(Launch)
    other = shard.trigger(job_id)
    [untraced] = shard.all_effects(Launch)

    assert isinstance(made, Triggered)
    assert shard.execution(made.execution_id).traceparent == f"00-{TRACE}"
    assert launch.order.work.env == (("TRACEPARENT", f"00-{TRACE}"),)
    assert (shard.execution(other).traceparent, untraced.order.work.env) == ("", ())
