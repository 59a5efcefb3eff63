"""The removal of old changes of users from the history of a node's shards."""

from rota.core.model.ids import ShardId
from rota.core.timing.instants import MINUTE, Duration, Instant, later
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Answer, Shard
from rota.node.system.clock import Clock
from rota.storage.user_changes import UserChanges

FORGOTTEN_PER_SHARD = 500
"""The most changes that one shard removes in one round."""
LOOK_EVERY = MINUTE


class ChangeExpiry:
    """The expiry of the changes of users.

    Args:
        shards: The shards of this node.
        changes: The changes in their history.
        keep_for: The time for which changes are kept.
        clock: The clock of this node.
    """

    def __init__(
        self, shards: Shards, changes: UserChanges, *, keep_for: Duration, clock: Clock
    ) -> None:
        self._shards = shards
        self._changes = changes
        self._keep_for = keep_for
        self._clock = clock
        # The checks of different shards are spread evenly over the period.
        self._looks_at = {
            shard.id: later(clock.elapsed(), Duration(LOOK_EVERY * place // len(shards)))
            for place, shard in enumerate(shards)
        }
        # Shards with a removal under way: before its commit, the same changes would be found again.
        self._forgetting: set[ShardId] = set()

    def expire(self, shard: Shard) -> None:
        """Remove the expired changes of an open shard, if its check is due."""
        now = self._clock.elapsed()
        if now < self._looks_at[shard.id] or shard.id in self._forgetting:
            return
        before = Instant(max(self._clock.now() - self._keep_for, 0))
        command = self._changes.older_than(shard.id, before, FORGOTTEN_PER_SHARD)
        if command is None or len(command.keys) < FORGOTTEN_PER_SHARD:
            self._looks_at[shard.id] = later(now, LOOK_EVERY)
        if command is None:
            return

        def forgot(answer: Answer) -> None:
            del answer  # If the removal was refused, the same changes are found again.
            self._forgetting.discard(shard.id)

        self._forgetting.add(shard.id)
        self._shards.submit(shard, command, forgot)
