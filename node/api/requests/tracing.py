"""Trace context of a request (W3C Trace Context), passed on to the executions it creates."""

import re

from aiohttp import web

from rota.node.api.requests.operations import Header

TRACEPARENT = Header(
    "traceparent",
    "The trace that the request belongs to (W3C Trace Context). The execution stores it, and its "
    "attempts receive it as the variable `TRACEPARENT`. A malformed value is ignored.",
)

_TRACEPARENT = re.compile(
    r"(?P<version>(?!ff)[0-9a-f]{2})"
    r"(?P<known>-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2})"
    r"(?P<more>-.*)?",
    re.ASCII,
)


def traceparent_of(http: web.Request) -> str:
    """Return the ``traceparent`` of a request; empty if the request has no valid one.

    A malformed header is ignored, as the standard requires.
    """
    given = http.headers.getall("traceparent", [])
    return checked_traceparent(given[0]) if len(given) == 1 else ""


def checked_traceparent(text: str) -> str:
    """Return the ``traceparent`` *text* in the form of version 00; empty if it is malformed.

    Later versions may append fields, which are left out.
    """
    found = _TRACEPARENT.fullmatch(text.strip())
    if found is None or (found["version"] == "00" and found["more"]):
        return ""
    return f"00{found['known']}"
