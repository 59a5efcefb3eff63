"""Writes: commands of a request, committed or, with ``?dryRun=true``, only evaluated.

A dry run makes all checks of the write. Its response is made in the same way, from the replies and
from the state after the commands; only in a dry run, this state is a separate copy.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rota.core.errors import Kind, Refused
from rota.core.model.execution import Execution, Task, in_place
from rota.core.model.ids import ExecutionId
from rota.core.state.shard_state import State
from rota.core.vocabulary.changes import Record, Table
from rota.core.vocabulary.commands import Command
from rota.core.vocabulary.decision import Reply
from rota.node.api.requests.request_context import RequestContext
from rota.node.shards.dry_run import dry_run
from rota.node.shards.shard import Answer, NotPrimary, Shard


@dataclass(frozen=True, slots=True)
class Written:
    """The results of the commands of a request.

    Attributes:
        answers: The reply to each command, or its refusal, in the order of the commands.
        past: The records that a dry run would have moved to the history, by table and key.
    """

    answers: list[Answer]
    past: Mapping[tuple[Table, str], Record]
    _dry_states: Mapping[Shard, State]
    _state: Callable[[Shard], State]

    def state(self, shard: Shard) -> State:
        """Return the state of *shard* after the commands.

        Raises:
            Refused: As for `RequestContext.state`.
        """
        return self._dry_states.get(shard) or self._state(shard)

    def execution(
        self, shard: Shard, execution_id: ExecutionId
    ) -> tuple[Execution, dict[str, Task]] | None:
        """Return an execution and its tasks as a dry run would leave them; None after a write."""
        state = self._dry_states.get(shard)
        if state is None:
            return None
        if execution_id in state.executions:
            return state.executions[execution_id], state.tasks[execution_id]
        past = self.past[Table.PAST_EXECUTION, execution_id]
        tasks = [each for each in self.past.values() if isinstance(each, Task)]
        assert isinstance(past, Execution), past
        return past, in_place(tasks)


def repeated(request: RequestContext, reply: Reply) -> Written:
    """Return the result of a request that was answered with *reply* before."""
    return Written([reply], {}, {}, request.state)


async def write(request: RequestContext, shard: Shard, command: Command) -> tuple[Reply, Written]:
    """Decide one command, and return its reply and its result.

    Raises:
        Refused: The decision refuses the command, or the node accepts no requests now.
    """
    written = await write_all(request, [(shard, command)])
    [answer] = written.answers
    if isinstance(answer, Refused):
        raise answer
    return answer, written


async def write_all(request: RequestContext, commands: Iterable[tuple[Shard, Command]]) -> Written:
    """Decide commands in one turn.

    Raises:
        Refused: All commands are refused, because the node accepts no requests now.
    """
    node, commands = request.node, list(commands)
    if request.is_dry_run:
        result = await dry_run(node.shards, node.clock, commands)
        return Written(result.answers, result.past, result.states, request.state)
    answers = await node.shards.ask_many(commands)
    request.has_written |= not all(isinstance(answer, NotPrimary) for answer in answers)
    for (shard, _), answer in zip(commands, answers, strict=True):
        if not isinstance(answer, Refused):
            request.note_committed(shard)
        elif answer.kind is not Kind.UNAVAILABLE:
            request.note_read(shard)
    return Written(answers, {}, {}, request.state)
