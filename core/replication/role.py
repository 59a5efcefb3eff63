"""The outbox that both roles of a copy have."""

from rota.core.model.ids import NodeId
from rota.core.replication.messages import Message


class Role:
    """A role of a copy: `rota.core.replication.primary.Primary` or `...backup.Backup`.

    Attributes:
        outbox: Messages to be sent.
    """

    def __init__(self) -> None:
        self.outbox: list[tuple[NodeId, Message]] = []

    def send(self, to: NodeId, message: Message) -> None:
        """Add a message to the outbox."""
        self.outbox.append((to, message))

    def send_first(self, messages: tuple[tuple[NodeId, Message], ...]) -> None:
        """Put messages of the role before this one at the beginning of the outbox."""
        self.outbox[:0] = messages

    def take_outbox(self) -> tuple[tuple[NodeId, Message], ...]:
        """Return the messages to be sent, and empty the outbox."""
        messages = tuple(self.outbox)
        self.outbox.clear()
        return messages
