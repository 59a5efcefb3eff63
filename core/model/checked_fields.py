"""Types of fields whose form is checked when they are decoded.

The values are those of `rota.core.model.ids` and `rota.core.timing.instants`. A malformed message
from another node is refused as a whole before it has any effect, and no record has an instant that
cannot be displayed. The types are in a separate module because the command line loads the plain
types without msgspec.
"""

from typing import Annotated

from msgspec import Meta

from rota.core.model.ids import (
    EXECUTION_ID_FORM,
    INT64_MAX,
    JOB_ID_FORM,
    NAME_FORM,
    NAME_LENGTH_MAX,
    SHARDS_MAX,
    AllocationId,
    Epoch,
    ExecutionId,
    Index,
    JobId,
    NodeId,
    Session,
    ShardId,
)
from rota.core.timing.instants import LATEST_INSTANT, Duration, Instant

Count = Annotated[int, Meta(ge=0, le=INT64_MAX)]
CheckedName = Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH_MAX)]
"""Only the length is checked: to match a pattern takes 1 us, and most names are only looked up."""
CheckedFullName = Annotated[str, Meta(pattern=rf"\A{NAME_FORM}/{NAME_FORM}\Z")]
CheckedUpstream = Annotated[str, Meta(pattern=rf"\A@?{NAME_FORM}/{NAME_FORM}\Z")]
"""The full name of a job, or a channel of events."""
CheckedNodeId = Annotated[NodeId, Meta(max_length=NAME_LENGTH_MAX)]
CheckedJobId = Annotated[JobId, Meta(pattern=rf"\A{JOB_ID_FORM}\Z")]
CheckedExecutionId = Annotated[ExecutionId, Meta(pattern=rf"\A{EXECUTION_ID_FORM}\Z")]
CheckedSession = Annotated[Session, Meta(max_length=64)]
CheckedAllocation = Annotated[AllocationId, Meta(max_length=64)]
CheckedShard = Annotated[ShardId, Meta(ge=0, lt=SHARDS_MAX)]
CheckedEpoch = Annotated[Epoch, Meta(ge=0, le=INT64_MAX)]
CheckedIndex = Annotated[Index, Meta(ge=0, le=INT64_MAX)]
CheckedInstant = Annotated[Instant, Meta(ge=0, le=LATEST_INSTANT)]
CheckedDuration = Annotated[Duration, Meta(ge=0, le=LATEST_INSTANT)]
