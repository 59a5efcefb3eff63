"""Writes: what a request asks of the shards, for real or, with ``?dryRun=true``, only tried.

A rehearsal makes every check of the write, and its answer is made as that of the write is: from
the replies and from what then is. Where to look for that is the one difference.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aiohttp import web

from rota.core.errors import Refused
from rota.core.model.execution import Execution, Task, in_place
from rota.core.model.ids import ExecutionId
from rota.core.state.shard_state import State
from rota.core.vocabulary.changes import Record, Table
from rota.core.vocabulary.commands import Command
from rota.core.vocabulary.decision import Reply
from rota.node.api.requests.parameters import IS_DRY_RUN
from rota.node.api.requests.request_reader import CONTEXT
from rota.node.api.routing.forwarding import HAS_WRITTEN
from rota.node.shards.dry_run import rehearse
from rota.node.shards.shard import Answer, NotPrimary, Shard


@dataclass(frozen=True, slots=True)
class Written:
    """What came of the commands of a request, or what would.

    Attributes:
        answers: One for each command, in their order.
        past: What became history only in a rehearsal, by table and key.
    """

    answers: list[Answer]
    past: Mapping[tuple[Table, str], Record]
    _states: Mapping[Shard, State]

    def state(self, shard: Shard) -> State:
        """Return what *shard* then holds; in a write it may run ahead of the commit again."""
        return self._states.get(shard, shard.state)

    def execution(
        self, shard: Shard, execution_id: ExecutionId
    ) -> tuple[Execution, dict[str, Task]] | None:
        """Return an execution of a rehearsal and its tasks; None after a write."""
        state = self._states.get(shard)
        if state is None:
            return None
        if execution_id in state.executions:
            return state.executions[execution_id], state.tasks[execution_id]
        past = self.past[Table.PAST_EXECUTION, execution_id]
        tasks = [each for each in self.past.values() if isinstance(each, Task)]
        assert isinstance(past, Execution), past
        return past, in_place(tasks)


async def write(request: web.Request, shard: Shard, command: Command) -> tuple[Reply, Written]:
    """Have one command decided, and return its reply and what came of it.

    Raises:
        Refused: By the decision, or because requests cannot be taken at the moment.
    """
    written = await write_all(request, [(shard, command)])
    [answer] = written.answers
    if isinstance(answer, Refused):
        raise answer
    return answer, written


async def write_all(request: web.Request, commands: Iterable[tuple[Shard, Command]]) -> Written:
    """Have commands decided in one turn.

    Raises:
        Refused: All of them, because requests cannot be taken at the moment.
    """
    context = request.app[CONTEXT]
    if request[IS_DRY_RUN]:
        rehearsal = await rehearse(context.shards, context.clock, commands)
        return Written(rehearsal.answers, rehearsal.past, rehearsal.states)
    answers = await context.shards.ask_many(commands)
    request[HAS_WRITTEN] = not all(isinstance(answer, NotPrimary) for answer in answers)
    return Written(answers, {}, {})
