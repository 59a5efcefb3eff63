"""Tasks and their order in a DAG file of Airflow, found in its syntax."""

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rota.client.imports.drafts import Findings
from rota.client.imports.python_source import called_name

DAG_NAMES = frozenset({"DAG", "dag"})
_ORDERS = (ast.RShift, ast.LShift)
_ORDER_CALLS = frozenset(
    {"set_downstream", "set_upstream", "chain", "chain_linear", "cross_downstream"}
)
_OF_GROUP = frozenset({"group_id", "dag", "tooltip", "ui_color", "ui_fgcolor"})


@dataclass(eq=False, slots=True)
class AirflowTask:
    """A task of a DAG.

    Attributes:
        call: The call of its operator, or of its function with the decorator ``task``.
        settings: The arguments of the operator as a call: *call*, or those of the decorator.
        group: The names of the groups around it, each followed by a dot.
        function: The name of its function with the decorator; empty for an operator.
        needs: The tasks that it needs, in the order of the file.
    """

    call: ast.Call
    settings: ast.Call
    group: str = ""
    function: str = ""
    needs: list["AirflowTask"] = field(default_factory=list["AirflowTask"])


@dataclass(eq=False, slots=True)
class AirflowDag:
    """A DAG.

    Attributes:
        call: The call of ``DAG`` or of the decorator ``dag``.
        default_id: Its name if the call has none.
        tasks: Its tasks, in the order of the file.
    """

    call: ast.Call
    default_id: str = ""
    tasks: list[AirflowTask] = field(default_factory=list[AirflowTask])


def dags_of(tree: ast.Module, findings: Findings) -> list[AirflowDag]:
    """Return the DAGs of a file with their tasks; what cannot be followed is a note."""
    graph = _Graph(findings)
    graph.read(tree.body, None, "")
    graph.lose_the_rest(tree)
    return graph.dags


def is_operator(call: ast.Call) -> bool:
    """Return True if *call* makes a task: by its name, or by the argument ``task_id``."""
    has_id = any(each.arg == "task_id" for each in call.keywords)
    return has_id or _is_class_of_tasks(called_name(call.func))


def _is_class_of_tasks(name: str) -> bool:
    return name[:1].isupper() and name.endswith(("Operator", "Sensor"))


class _Graph:
    """Reads the statements of a file in their order."""

    def __init__(self, findings: Findings) -> None:
        self.dags: list[AirflowDag] = []
        self._findings = findings
        self._dag_names: dict[str, AirflowDag] = {}
        self._tasks: dict[str, list[AirflowTask]] = {}
        self._functions: dict[str, list[ast.keyword]] = {}
        self._done: set[ast.AST] = set()

    def read(self, body: Iterable[ast.stmt], dag: AirflowDag | None, group: str) -> None:
        """Read statements within a DAG, if any, and within groups."""
        for node in body:
            self._read_one(node, dag, group)

    def _read_one(self, node: ast.stmt, dag: AirflowDag | None, group: str) -> None:
        match node:
            case ast.With():
                self._read_with(node, dag, group)
            case ast.FunctionDef():
                self._read_function(node)
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                if isinstance(value, ast.Call) and called_name(value.func) == "DAG":
                    self._dag_names[name] = self._add_dag(value)
                elif tasks := self._tasks_of(value, dag, group):
                    self._tasks[name] = tasks
            case ast.Expr(value=value):
                self._tasks_of(value, dag, group)
            case _:
                pass

    def _read_with(self, node: ast.With, dag: AirflowDag | None, group: str) -> None:
        begun = {task for each in self.dags for task in each.tasks}
        group_name = ""
        for item in node.items:
            call, target = item.context_expr, called_name(item.optional_vars or node_none())
            if isinstance(call, ast.Call) and called_name(call.func) == "DAG":
                dag = self._add_dag(call)
                if target:
                    self._dag_names[target] = dag
            elif isinstance(call, ast.Call) and called_name(call.func) == "TaskGroup":
                group, group_name = f"{group}{self._group_id(call)}.", target
            elif isinstance(call, ast.Call) and dag is None:
                return  # It may be a DAG, which is not written here: its tasks are of no other one.
            else:
                dag = self._dag_names.get(called_name(call), dag)
        self.read(node.body, dag, group)
        if dag and group_name:
            self._tasks[group_name] = [task for task in dag.tasks if task not in begun]

    def _group_id(self, call: ast.Call) -> str:
        """Return the name of a group, and add notes on its other arguments."""
        values = [*call.args[:1], *(each.value for each in call.keywords if each.arg == "group_id")]
        for each in call.keywords:
            if each.arg not in _OF_GROUP:
                what = f"{each.arg or '**'} of a TaskGroup"
                self._findings.lose(each.value.lineno, what, "write it in the tasks of the group")
        match values:
            case [ast.Constant(value=str() as text), *_]:
                return text
            case _:
                self._findings.lose(
                    call.lineno, "the group_id is not written as text", "rename the tasks"
                )
                return "group"

    def _read_function(self, node: ast.FunctionDef) -> None:
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            name = called_name(call.func if call else decorator)
            if name == "dag":
                call = call or ast.Call(decorator, [], [], lineno=decorator.lineno, col_offset=0)
                self.read(node.body, self._add_dag(call, node.name), "")
            elif name == "task" or ast.unparse(decorator).startswith("task."):
                self._functions[node.name] = call.keywords if call else []

    def _add_dag(self, call: ast.Call, default_id: str = "") -> AirflowDag:
        self._done.add(call)
        dag = AirflowDag(call, default_id)
        self.dags.append(dag)
        return dag

    def _tasks_of(self, node: ast.expr, dag: AirflowDag | None, group: str) -> list[AirflowTask]:
        """Return the tasks that an expression stands for, after its orders are read."""
        match node:
            case ast.Name(id=name):
                return self._tasks.get(name, [])
            case ast.Attribute(value=value) | ast.Subscript(value=value):
                return self._tasks_of(value, dag, group)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [task for item in items for task in self._tasks_of(item, dag, group)]
            case ast.BinOp(left=left, op=ast.RShift() | ast.LShift() as order, right=right):
                first = self._tasks_of(left, dag, group)
                second = self._tasks_of(right, dag, group)
                if isinstance(right, ast.Call) and called_name(right.func) == "Label":
                    self._done.add(node)
                    return first
                if first and second:
                    self._done.add(node)
                _order(first, second) if isinstance(order, ast.RShift) else _order(second, first)
                return second
            case ast.Call():
                return self._called(node, dag, group)
            case _:
                return []

    def _called(self, call: ast.Call, dag: AirflowDag | None, group: str) -> list[AirflowTask]:
        name = called_name(call.func)
        if is_operator(call) or _function_of(call) in self._functions:
            return self._add_task(call, dag, group)
        given = [self._tasks_of(each, dag, group) for each in call.args]
        if name in _ORDER_CALLS and name != "chain_linear" and all(given):
            self._done.add(call)
        if name in ("set_downstream", "set_upstream") and isinstance(call.func, ast.Attribute):
            first = self._tasks_of(call.func.value, dag, group)
            for each in given:
                _order(first, each) if name == "set_downstream" else _order(each, first)
        elif name == "chain":
            self._chain(call, given)
        elif name == "cross_downstream" and len(given) == 2:
            _order(*given)
        return []

    def _chain(self, call: ast.Call, given: Sequence[list[AirflowTask]]) -> None:
        """Order the arguments of ``chain``: of two lists in a row, item by item."""
        lists = [isinstance(each, ast.List | ast.Tuple) for each in call.args]
        for number, (first, second) in enumerate(pairwise(given)):
            if lists[number] and lists[number + 1] and len(first) == len(second):
                for before, after in zip(first, second, strict=True):
                    _order([before], [after])
            else:
                _order(first, second)

    def _add_task(self, call: ast.Call, dag: AirflowDag | None, group: str) -> list[AirflowTask]:
        named = next((each.value for each in call.keywords if each.arg == "dag"), None)
        if named is not None and called_name(named) not in self._dag_names:
            return []
        dag = self._dag_names[called_name(named)] if named is not None else dag
        if dag is None and len(self.dags) == 1:
            dag = self.dags[0]
        if dag is None:
            return []
        self._done.add(call)
        function = _function_of(call) if _function_of(call) in self._functions else ""
        task = AirflowTask(call, self._settings(call, function), group, function)
        for each in [*call.args, *(item.value for item in call.keywords)]:
            # The result of a task as an argument of another one orders them.
            _order(self._tasks_of(each, dag, group), [task])
        dag.tasks.append(task)
        return [task]

    def _settings(self, call: ast.Call, function: str) -> ast.Call:
        if not function:
            return call
        keywords = [*self._functions[function]]
        if isinstance(call.func, ast.Call):
            keywords += call.func.keywords
        return ast.Call(call.func, [], keywords, lineno=call.lineno, col_offset=0)

    def lose_the_rest(self, tree: ast.Module) -> None:
        """Add notes on the DAGs, tasks and orders in the file that were not read."""
        for node in ast.walk(tree):
            if node in self._done:
                continue
            what = ""
            if isinstance(node, ast.Call) and called_name(node.func) == "DAG":
                what = "a DAG"
            elif isinstance(node, ast.Call) and _is_class_of_tasks(called_name(node.func)):
                what = f"a task, {called_name(node.func)},"
            elif isinstance(node, ast.Call) and called_name(node.func) == "expand":
                what = "a task for each item (expand)"
            elif isinstance(node, ast.Call) and _function_of(node) in self._functions:
                what = f"a task, {_function_of(node)},"
            elif isinstance(node, ast.Call) and called_name(node.func) in _ORDER_CALLS:
                what = "an order of tasks"
            elif isinstance(node, ast.BinOp) and isinstance(node.op, _ORDERS):
                names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                what = "an order of tasks" if names & self._tasks.keys() else ""
            if what and isinstance(node, ast.expr):
                self._findings.lose(
                    node.lineno,
                    f"{what} in a loop, a condition or a function, or of values that are computed",
                    "add it to the definition; foreach repeats a task for each item of a list",
                )


def node_none() -> ast.expr:
    """Return an expression without a name."""
    return ast.Constant(None)


def _function_of(call: ast.Call) -> str:
    """Return the name of the called function, also of ``function.override(...)(...)``."""
    match call.func:
        case ast.Call(func=ast.Attribute(value=function, attr="override")):
            return called_name(function)
        case function:
            return called_name(function)


def _order(first: Sequence[AirflowTask], second: Sequence[AirflowTask]) -> None:
    for after in second:
        after.needs += [before for before in first if before not in after.needs]
