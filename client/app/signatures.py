"""Arguments and results of functions as JSON, by their annotations.

msgspec defines the forms: dataclasses and Structs are objects, enums their values, instants,
decimals and UUIDs text, bytes base64. Models of pydantic are objects, too. A value without an
annotation is passed as the plain JSON that it is on the way: a date becomes text there.
"""

import inspect
import json
import sys
import typing
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from rota.client.app.errors import InvalidArgument, InvalidFlow, InvalidTask, WrongResult
from rota.client.app.placeholders import Json, Kind, Placeholder, Tree, placeholders_in
from rota.core.quoting import shortened

CONTEXT = "ctx"
"""The parameter that a worker fills with the context of the attempt."""
_CONTAINERS = (list, tuple, set, frozenset, dict)
_UNWRITABLE = (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError)


class Signature:
    """The parameters and the result of a function, which convert values to JSON and back.

    Args:
        function: The function; a parameter ``ctx`` is left to the worker.
        name: The name of the function in errors.

    Raises:
        InvalidTask: JSON cannot express what the function returns.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._name = name
        self._annotations = inspect.get_annotations(function)
        self._globals: dict[str, Any] = inspect.unwrap(function).__globals__
        self._parameters = inspect.signature(function)
        self._given = self._parameters.replace(
            parameters=[
                each for each in self._parameters.parameters.values() if each.name != CONTEXT
            ]
        )
        self._kinds: dict[str, Kind] = {}
        self._check_result(function)

    @property
    def required(self) -> list[str]:
        """The names of the parameters without a default."""
        return [
            each.name
            for each in self._given.parameters.values()
            if each.default is each.empty
            and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        ]

    def check_names(self, held: Mapping[str, Any]) -> None:
        """Check that the function takes the arguments *held* by name.

        Raises:
            InvalidArgument: It does not.
        """
        self._bound(self._given, (), held, is_partial=True)

    def completed(
        self, held: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """Return the arguments of a call that has *held* already, which *kwargs* may replace.

        Those by position go to the parameters that *held* leaves, in their order.

        Raises:
            InvalidArgument: There are too many.
        """
        if not held:
            return args, kwargs
        known = self._parameters.parameters
        named = {**held, **kwargs}
        fixed = {name: named.pop(name) for name in held if name in known}
        left = [each for name, each in known.items() if name not in fixed]
        signature = self._parameters.replace(parameters=left)
        found = {**self._bound(signature, args, named, is_partial=True).arguments, **fixed}
        ordered = OrderedDict((name, found[name]) for name in known if name in found)
        whole = inspect.BoundArguments(self._parameters, ordered)
        return whole.args, whole.kwargs

    def encoded(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], *, in_flow: bool = False
    ) -> tuple[list[Tree], dict[str, Tree]]:
        """Return the arguments of a call as JSON, by name as far as the function permits.

        Args:
            args: The arguments by position.
            kwargs: The arguments by name.
            in_flow: Whether they, and the items of lists, tuples and dicts, may be placeholders.

        Raises:
            InvalidArgument: The function does not take them, or one of them does not have the
                annotated type, or cannot be expressed in JSON.
        """
        positional: list[Tree] = []
        named: dict[str, Tree] = {}
        encoded = self._encoded if in_flow else self._constant
        bound = self._bound(self._given, args, kwargs)
        takes_more = any(
            each.kind is each.VAR_POSITIONAL for each in self._given.parameters.values()
        )
        for name, value in bound.arguments.items():
            kind = self._given.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                positional += [encoded(name, each) for each in value]
            elif kind is inspect.Parameter.VAR_KEYWORD:
                named |= {key: encoded(name, each) for key, each in value.items()}
            elif kind is inspect.Parameter.POSITIONAL_ONLY or (
                takes_more and kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
            ):
                positional.append(encoded(name, value))
            else:
                named[name] = encoded(name, value)
        return positional, named

    def decoded(
        self, args: Sequence[Json], kwargs: Mapping[str, Json]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments that a worker passes, converted to the annotated types.

        Raises:
            InvalidArgument: The function does not take them, or one of them has another type.
        """
        bound = self._bound(self._parameters, args, kwargs)
        for name, value in bound.arguments.items():
            kind = self._parameters.parameters[name].kind
            if name == CONTEXT:
                continue
            if kind is inspect.Parameter.VAR_POSITIONAL:
                bound.arguments[name] = tuple(self._decoded(name, each) for each in value)
            elif kind is inspect.Parameter.VAR_KEYWORD:
                bound.arguments[name] = {
                    key: self._decoded(name, each) for key, each in value.items()
                }
            else:
                bound.arguments[name] = self._decoded(name, value)
        return bound.args, bound.kwargs

    def encoded_result(self, value: Any) -> Json:
        """Return what the function has returned as JSON; the worker reports what it cannot."""
        return _plain(value)

    def decoded_result(self, value: Json) -> Any:
        """Return the result of an execution, converted to the annotated type.

        Raises:
            WrongResult: The result has another type.
        """
        kind = self._kind("return")
        try:
            return _converted(value, kind)
        except _UNWRITABLE as error:
            raise WrongResult(
                f"{self._name} is to return {inspect.formatannotation(kind)}, but returned "
                f"{shortened(json.dumps(value))} ({type(value).__name__}): {error}"
            ) from error

    def _bound(
        self,
        signature: inspect.Signature,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        is_partial: bool = False,
    ) -> inspect.BoundArguments:
        bind = signature.bind_partial if is_partial else signature.bind
        try:
            return bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidArgument(f"{self._name}: {error}; it takes {signature}") from None

    def _encoded(self, name: str, value: Any) -> Tree:
        if isinstance(value, Placeholder):
            value.expect(self._kind(name))
            return value
        if isinstance(value, _CONTAINERS) and any(True for _ in placeholders_in(value)):
            return checked_tree(name, value, function=self._name)
        return self._constant(name, value)

    def _constant(self, name: str, value: Any) -> Json:
        plain = checked_json(name, value, self._kind(name), function=self._name)
        if _is_result(plain):
            # A worker would replace it by the result of a needed task.
            raise InvalidArgument(
                f"{self._name}: the argument {name!r} is an object with the single member "
                "'result', which stands for the result of a task; put it into a list"
            )
        return plain

    def _decoded(self, name: str, value: Json) -> Any:
        try:
            return _converted(value, self._kind(name))
        except _UNWRITABLE as error:
            raise InvalidArgument(f"{self._name}: the argument {name!r}: {error}") from error

    def _kind(self, name: str) -> Kind:
        """Return the annotated type of a parameter, or of ``return``; Any without one."""
        if name not in self._kinds:
            self._kinds[name] = self._resolved(name)
        return self._kinds[name]

    def _resolved(self, name: str) -> Kind:
        if name not in self._annotations:
            return Any
        # One at a time, so that names for type checkers alone do no harm elsewhere.
        one = SimpleNamespace(__annotations__={name: self._annotations[name]})
        try:
            return typing.get_type_hints(one, self._globals, include_extras=True)[name]
        except NameError as error:
            raise InvalidTask(
                f"{self._name}: the annotation of {name!r} cannot be evaluated: {error}; import "
                "the name outside of TYPE_CHECKING"
            ) from error

    def _check_result(self, function: Callable[..., Any]) -> None:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidTask(
                f"{self._name} is a generator, which has no single result; return a list"
            )
        try:
            kind = self._kind("return")
        except InvalidTask:  # Its class may be defined further down in the module.
            return
        try:
            msgspec.json.schema(kind, schema_hook=_schema_of)
        except _UNWRITABLE as error:
            reason = str(error).partition("\n")[0] if type(error) is not TypeError else ""
            raise InvalidTask(
                f"{self._name} returns {inspect.formatannotation(kind)}, which has no form in "
                f"JSON{': ' if reason else ''}{reason}; return a dataclass, a msgspec Struct or "
                "plain values"
            ) from error


def checked_json(name: str, value: Any, kind: Kind = Any, *, function: str = "") -> Json:
    """Return *value* as JSON.

    Args:
        name: The name of the argument in errors.
        value: The value.
        kind: The annotated type; Any for every one.
        function: The name of the function in errors; empty for none.

    Raises:
        InvalidArgument: It does not have that type, or cannot be expressed in JSON.
    """
    try:
        plain = _plain(value)
        msgspec.json.encode(plain)
        _STRICT.encode(plain)
        _converted(plain, kind)
    except _UNWRITABLE as error:
        raise InvalidArgument(
            f"{function}{': ' if function else ''}the argument {name!r} ({type(value).__name__}) "
            f"cannot be sent: {error}"
        ) from error
    return plain


def checked_tree(name: str, value: Any, *, function: str) -> Tree:
    """Return a value that may contain placeholders, and whose type only the worker can check.

    Raises:
        InvalidArgument: A part cannot be expressed in JSON, or a key is no text.
    """
    match value:
        case Placeholder():
            return value
        case dict():
            members = cast("dict[object, Any]", value)
            return {
                _key(name, key, function): checked_tree(name, each, function=function)
                for key, each in members.items()
            }
        case list() | tuple() | set() | frozenset():
            items = cast("list[Any]", value)
            return [checked_tree(name, each, function=function) for each in items]
        case _:
            return checked_json(name, value, function=function)


def _key(name: str, key: object, function: str) -> str:
    if not isinstance(key, str):
        raise InvalidArgument(
            f"{function}: the argument {name!r} has a part of a flow, and the key {key!r}, which "
            "is no text; use text"
        )
    return key


def _plain(value: Any) -> Json:
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_encoded_model)


def _converted(value: Json, kind: Kind) -> Any:
    return msgspec.convert(value, kind, str_keys=True, dec_hook=_decoded_model)


def _is_result(value: Json) -> bool:
    return isinstance(value, dict) and cast("dict[str, Json]", value).keys() == {"result"}


def _is_model(kind: Kind) -> bool:
    """Return True if *kind* is a model of pydantic, which is not loaded for that."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _encoded_model(value: Any) -> Json:
    if isinstance(value, Placeholder):
        raise InvalidFlow(
            f"{value!r} is inside an argument, where it cannot be replaced by its value; in the "
            "definition of its flow, give it as an argument of its own, or in a list or a dict"
        )
    if not _is_model(type(value)):
        raise NotImplementedError(f"{type(value).__name__} has no form in JSON")
    return value.model_dump(mode="json")


def _decoded_model(kind: Kind, value: Json) -> Any:
    if kind is object:
        return value
    if not _is_model(kind):
        raise NotImplementedError(f"{inspect.formatannotation(kind)} has no form in JSON")
    return kind.model_validate(value)


def _schema_of(kind: Kind) -> dict[str, Json]:
    if kind is object or _is_model(kind):
        return {"type": "object"}  # Any schema: only its presence counts.
    raise NotImplementedError


_STRICT = json.JSONEncoder(allow_nan=False)
"""Refuses NaN and infinities, which msgspec writes as null."""
