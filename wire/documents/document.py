"""Base classes of documents, and the types of their fields."""

from typing import Annotated, Any, Literal

import msgspec

ITEMS_MAX = 1_000
"""The highest number of items in one request."""
BATCH_SCHEDULES_MAX = 2_000
"""The most schedules of all jobs of a batch. Their first fire times are computed in one turn, which
takes 50 us for each."""

Json = Any
"""Any JSON value. The type is Any because the value is passed on unread."""
Word = Annotated[str, msgspec.Meta(max_length=256)]
"""A name or another short text."""
LineText = Annotated[str, msgspec.Meta(max_length=1_000)]
"""A schedule, a reason, or the value of a label."""
PathText = Annotated[str, msgspec.Meta(max_length=4_096)]
"""A path; Linux has the same limit."""
UrlText = Annotated[str, msgspec.Meta(max_length=4_096)]
BindText = Annotated[str, msgspec.Meta(max_length=8_200)]
"""A bind: two paths and a mode."""
ProseText = Annotated[str, msgspec.Meta(max_length=10_000)]
"""A longer text."""
ArgumentText = Annotated[str, msgspec.Meta(max_length=131_071)]
"""An argument or an environment variable of a program; Linux limits each to 128 KiB."""
InputText = Annotated[str, msgspec.Meta(max_length=1_048_576)]
"""The standard input of a program."""
Command = ArgumentText | Annotated[list[ArgumentText], msgspec.Meta(max_length=10_000)]
Names = Annotated[list[Word], msgspec.Meta(max_length=10_000)]
Words = Annotated[list[Word], msgspec.Meta(max_length=256)]
Labels = Annotated[dict[Word, LineText], msgspec.Meta(max_length=100)]
Environment = Annotated[dict[Word, ArgumentText], msgspec.Meta(max_length=1_000)]
Timespan = int | float | Annotated[str, msgspec.Meta(max_length=100)]
SizeText = Annotated[str, msgspec.Meta(max_length=100)]
InstantText = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
# These limits are for the schema. The node checks them itself and reports all errors together.
NameText = Annotated[
    str,
    msgspec.Meta(
        max_length=1_000,
        extra_json_schema={"pattern": "^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$"},
    ),
]
MintedNameText = Annotated[
    str,
    msgspec.Meta(
        max_length=1_000,
        extra_json_schema={"pattern": "^([A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?)?$"},
    ),
]
"""A name; if it is empty, the node generates one."""
RetryCount = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": 1000})]
Failures = Annotated[int, msgspec.Meta(ge=0, le=1_000)]
OverlapName = Literal["allow", "skip", "queue_one", "queue_latest", "queue_all", "cancel_running"]
Priority = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": -100, "maximum": 100})]
Profile = Annotated[
    str, msgspec.Meta(max_length=256, extra_json_schema={"enum": ["none", "default", "strict"]})
]
Share = Annotated[float, msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": 1})]


class Body(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """A document that a client sends; unknown fields are errors.

    Fields with their default value are not sent, so that an older node accepts the document.
    """


class View(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A document that a node sends."""
