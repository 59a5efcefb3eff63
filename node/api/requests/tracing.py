"""The trace that a request is part of (W3C Trace Context), handed on to what it leads to."""

import re

from aiohttp import web

from rota.node.api.requests.operations import Header

TRACEPARENT = Header(
    "traceparent",
    "The trace that the request is part of (W3C): its execution keeps it, and its attempts get it "
    "as `TRACEPARENT`. A malformed one is ignored.",
)

_TRACEPARENT = re.compile(
    r"(?P<version>(?!ff)[0-9a-f]{2})"
    r"(?P<known>-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2})"
    r"(?P<more>-.*)?",
    re.ASCII,
)


def traceparent_of(request: web.Request) -> str:
    """Return the ``traceparent`` of *request*, or empty where there is none that can be read.

    One that is malformed is ignored, as the standard says: a trace is no reason to refuse work.
    """
    given = request.headers.getall("traceparent", [])
    return checked_traceparent(given[0]) if len(given) == 1 else ""


def checked_traceparent(text: str) -> str:
    """Return *text* if it is a ``traceparent``, in the form of version 00, else empty.

    A later version may have more at its end, which whoever does not know that version leaves out.
    """
    found = _TRACEPARENT.fullmatch(text.strip())
    if found is None or (found["version"] == "00" and found["more"]):
        return ""
    return f"00{found['known']}"
