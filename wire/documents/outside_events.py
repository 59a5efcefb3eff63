"""Documents of events from outside, which start jobs (CloudEvents 1.0)."""

from typing import Literal

import msgspec

from rota.wire.documents.document import InstantText, Json, View


class CloudEventBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event, in the JSON format of CloudEvents 1.0; further attributes are kept, too.

    Attributes:
        specversion: The version of CloudEvents.
        id: Its id, up to 255 characters; events of one source have different ids.
        source: Where it comes from, a URI or a path, up to 2,000 characters.
        type: Its type, which has the form of a name; jobs have triggers for types.
        subject: What it is about, in its source.
        time: When it happened.
        datacontenttype: The media type of its data.
        dataschema: The URI of the schema of its data.
        data: Its data.
        data_base64: Its data in base64, in place of *data*.
    """

    specversion: Literal["1.0"]
    id: str
    source: str
    type: str
    subject: str | None = None
    time: InstantText | None = None
    datacontenttype: str | None = None
    dataschema: str | None = None
    data: Json = None
    data_base64: str | None = None


class ReceivedEventView(View, frozen=True):
    """An event that was received; each job decides whether it starts.

    Attributes:
        id: Its id.
        source: Its source.
        type: Its type.
        namespace: The namespace whose jobs it may start.
        jobs: The number of jobs with a trigger for its type.
        repeated: Whether it was received before, so that nothing was changed.
    """

    id: str
    source: str
    type: str
    namespace: str
    jobs: int
    repeated: bool = False
