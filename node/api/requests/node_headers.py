"""Headers of requests that only nodes send to each other."""

from rota.node.access.forwarded_principal import PRINCIPAL
from rota.node.peers.peer_apis import PEER

OF_SHARDS = "Rota-Shards"
"""The header of a request for some shards only: a hexadecimal number with a bit for each shard, the
lowest bit for shard 0."""
OF_ITEMS = "Rota-Items"
"""The header of a part of a batch: the numbers of its items in the whole batch, comma-separated."""
KEPT = "Rota-Kept"
"""The header of a request from the shard's primary to the node that ran an attempt: the attempt's
number. Only output that this node stores is returned."""
KEPT_FROM = "Rota-Kept-From"
"""The header of the same request: the execution in which the task ran. For a task that a rerun
kept, this is an earlier execution."""
CLIENT_ADDRESS = "Rota-Client-Address"
"""The header of a forwarded request with the address of the client that the first node saw."""

OF_NODES = (OF_SHARDS, OF_ITEMS, KEPT, KEPT_FROM, CLIENT_ADDRESS, PRINCIPAL, PEER)
"""All of these headers; only requests to the peer port may have them."""
