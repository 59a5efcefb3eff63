"""Steps of a job of GitHub Actions as one script of Bash."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rota.client.imports.located import Located
from rota.client.imports.templates import literal

_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_SECRET = re.compile(r"\$\{\{\s*secrets\.([A-Za-z_]\w*)\s*\}\}")
_INPUT = re.compile(r"(?:github\.event\.)?inputs\.([A-Za-z_]\w*)")
_OPTIONS = {"": "set -e", "bash": "set -eo pipefail", "sh": "set -e"}
_PYTHON = frozenset({"python", "python3"})
_OF_STEP = frozenset({"name", "id", "run", "uses", "with", "if", "env", "shell"}) | frozenset(
    {"working-directory", "continue-on-error"}
)
_PREPARATIONS = re.compile(r"actions/(checkout|setup-[\w-]+|cache)(/[\w-]+)?@.*")
_ALWAYS = frozenset({"success()", "always()", "!cancelled()"})
_REMEDIES = {"timeout-minutes": "write timeout before the command in the script"}


@dataclass(frozen=True, slots=True)
class Context:
    """The values to which expressions refer.

    Attributes:
        env: The variables, by their names; templates of rota.
        has_parameters: Whether the workflow has inputs, which are parameters of the job.
        variables: The variables of the matrix, if it is carried over.
    """

    env: Mapping[str, str]
    has_parameters: bool = False
    variables: Sequence[str] = field(default_factory=tuple[str, ...])


@dataclass(slots=True)
class Script:
    """The script of a job.

    Attributes:
        lines: Its lines for Bash.
        env: Variables of the task that it needs: values with templates are not written in it,
            where their quotes would be part of the script.
        secrets: The secrets of its steps by their variables.
    """

    lines: list[str] = field(default_factory=list[str])
    env: dict[str, str] = field(default_factory=dict[str, str])
    secrets: dict[str, str] = field(default_factory=dict[str, str])

    def quoted(self, number: int, name: str, template: str) -> str:
        """Return a word of Bash for the value *name* of a step; the first step is 1."""
        if "{{ " not in template and "{%" not in template:
            return shlex.quote(template)
        variable = f"STEP_{number}_{name}"
        self.env[variable] = template
        return f'"${variable}"'


def environment(owner: Located, context: Context) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables of *owner*: those with texts, and the secrets of the others."""
    env: dict[str, str] = {}
    secrets: dict[str, str] = {}
    variables = owner.within("env")
    for name in variables.fields:
        text = text_of(variables, name)
        if secret := _SECRET.fullmatch(text):
            owner.findings.change(
                variables.line(name),
                f"{name} is the secret {secret[1]} of GitHub",
                f"store it with rota secret set {secret[1]}",
            )
            secrets[name] = secret[1]
        else:
            env[name] = template_of(variables, name, text, context)
    return env, secrets


def text_of(located: Located, key: str) -> str:
    """Return a member as text; true and false are text, too."""
    value = located.fields.get(key)
    return str(value).lower() if isinstance(value, bool) else located.text(key)


def template_of(located: Located, key: str, text: str, context: Context) -> str:
    """Return *text*, the member *key*, with expressions as templates of rota.

    An expression without an equal stays as it is, which Bash refuses, and is a note.
    """
    parts: list[str] = []
    end = 0
    for found in _EXPRESSION.finditer(text):
        value = _value_of(found[1], context)
        if value is None:
            located.findings.lose(
                located.line(key),
                f"the expression {found[0]}",
                "write its value, or a template of rota such as {{ execution.fireTime }}",
            )
            value = literal(found[0])
        parts += [literal(text[end : found.start()]), value]
        end = found.end()
    return "".join([*parts, literal(text[end:])])


def _value_of(expression: str, context: Context) -> str | None:
    """Return the template of an expression; None if it has no equal."""
    root, _, name = expression.partition(".")
    if root == "matrix":
        variable, dot, member = name.partition(".")
        is_known = variable in context.variables and re.fullmatch(r"[\w-]+", variable)
        is_path = is_known and re.fullmatch(r"[\w.]*", member)
        return f"{{{{ item['{variable}']{dot}{member} }}}}" if is_path else None
    if root == "env" and name in context.env:
        return context.env[name]
    if context.has_parameters and (found := _INPUT.fullmatch(expression)):
        return f"{{{{ params.{found[1]} }}}}"
    return None


def script_of(job: Located, workflow: Located, context: Context) -> Script:
    """Return the script of the steps of *job*: each is a subshell, and a failure ends all.

    Raises:
        InvalidFile: A step has neither ``run`` nor ``uses``.
    """
    steps = job.objects("steps")
    if not steps:
        job.findings.lose(
            job.line("steps"), "the job has no steps; its task fails until then", "write a command"
        )
    script = Script()
    for number, step in enumerate(steps, 1):
        step.lose_others(_OF_STEP, _REMEDIES)
        if not _is_unconditional(step):
            continue
        if step.fields.get("uses"):
            script.lines += _action(step)
        else:
            script.lines += _run(script, number, step, (job, workflow), context)
    if not script.lines:
        script.lines = ["echo 'no step of this job is imported' >&2", "exit 1"]
    return script


def _run(
    script: Script, number: int, step: Located, above: Sequence[Located], context: Context
) -> list[str]:
    """Return the lines of a step that runs commands; *above* are its job and workflow."""
    if not step.text("run"):
        raise step.findings.invalid(step.line(), "the step has neither run nor uses")
    shell = _default(step, above, "shell")
    run = template_of(step, "run", step.text("run").rstrip("\n"), context)
    if shell in _PYTHON:
        run = f"{shell} -c {script.quoted(number, 'SCRIPT', run)}"
    elif shell not in _OPTIONS:
        step.findings.lose(
            step.line("shell" if "shell" in step.fields else "run"),
            f"the shell {shell} of a step; it fails until then",
            "write the step for Bash",
        )
        return _failing(f"a step for {shell}")
    env, secrets = environment(step, context)
    script.secrets |= secrets
    lines = ["(", _OPTIONS.get(shell, "set -e")]
    lines += [f"export {name}={script.quoted(number, name, env[name])}" for name in env]
    if folder := _default(step, above, "working-directory"):
        folder = template_of(step, "working-directory", folder, context)
        lines.append(f"cd {script.quoted(number, 'FOLDER', folder)}")
    lines += [run, ")"]
    # In a condition, such as `( ... ) || true`, Bash would ignore errors within the step, too.
    return ["set +e", *lines, "set -e"] if step.flag("continue-on-error") else lines


def _is_unconditional(step: Located) -> bool:
    condition = text_of(step, "if").removeprefix("${{").removesuffix("}}").strip()
    if condition in ("", "success()"):
        return True
    is_kept = condition in _ALWAYS
    step.findings.lose(
        step.line("if"),
        f"if: {condition}" + ("; after a failure the step does not run" if is_kept else ""),
        "make it a task with a triggerRule"
        if is_kept
        else "the step is left out; write it with its condition in the command",
    )
    return is_kept


def _action(step: Located) -> list[str]:
    """Return the lines of an action: none for one that prepares the machine, else a failure."""
    uses = step.text("uses")
    if _PREPARATIONS.fullmatch(uses):
        step.findings.lose(
            step.line("uses"),
            f"uses: {uses} prepares the machine",
            "begin the command with git clone, or run it in a container with the tools",
        )
        return []
    step.findings.lose(
        step.line("uses"), f"uses: {uses}; the step fails until then", "write a command for it"
    )
    return _failing(f"the action {uses}")


def _failing(what: str) -> list[str]:
    return [f"echo {shlex.quote(literal(f'{what} is not imported'))} >&2", "exit 1"]


def _default(step: Located, above: Sequence[Located], key: str) -> str:
    """Return a setting of a step, or the default of its job or workflow."""
    defaults = [each.within("defaults").within("run") for each in above]
    return next(filter(None, (each.text(key) for each in (step, *defaults))), "")
