"""The messages of the Model Context Protocol (https://modelcontextprotocol.io), without IO.

A message is one JSON-RPC 2.0 request or notification; each request has exactly one answer, and a
notification none. Batches are refused: the newest version of the protocol has none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import msgspec

from rota.client.mcp.visible import visible, visible_value
from rota.core.decoding import repeated_key, second_key
from rota.core.quoting import in_quotes

VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")
"""The versions of the protocol, the newest first."""

MALFORMED = -32700
INVALID_REQUEST = -32600
NO_SUCH_METHOD = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

Id = str | int | None
Params = Mapping[str, object]


@dataclass(frozen=True)
class Answer:
    """The answer of a tool.

    Attributes:
        content: A JSON object.
        is_error: Whether the tool failed.
    """

    content: Mapping[str, object]
    is_error: bool = False


class UnknownTool(Exception):
    """There is no tool with this name."""


class Tools(Protocol):
    """The tools of a server."""

    def listed(self) -> list[dict[str, object]]:
        """Return the descriptions of the tools, as ``tools/list`` has them."""
        ...

    def call(self, name: str, arguments: bytes) -> Answer:
        """Return the answer of a tool to *arguments*, an object in JSON.

        Raises:
            UnknownTool: There is no such tool.
        """
        ...


class ProtocolError(Exception):
    """A request is refused by the protocol.

    Attributes:
        code: The code of JSON-RPC.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Server:
    """Answers messages; threads may share it.

    Args:
        tools: The tools.
        version: The version of rota.
        instructions: What a client's model should know about the tools.
    """

    def __init__(self, tools: Tools, *, version: str, instructions: str) -> None:
        self._tools = tools
        self._about = {"name": "rota", "title": "rota", "version": version}
        self._instructions = instructions
        self._methods: Mapping[str, Callable[[Params], object]] = {
            "initialize": self._initialize,
            "ping": lambda _: {},
            "tools/list": lambda _: {"tools": self._tools.listed()},
            "tools/call": self._call,
        }

    def answer(self, message: bytes) -> bytes | None:
        """Return the answer to a message; None if it has none."""
        request_id: Id = None
        try:
            fields = _fields_of(message)
            repeated = repeated_key(message)
            if repeated is None or repeated[0] != "id":
                request_id = _id_of(fields)
            if repeated is not None:
                raise ProtocolError(INVALID_REQUEST, second_key(repeated))
            if "method" not in fields and ("result" in fields or "error" in fields):
                return None  # An answer; this server has sent no request.
            method, params = _method_of(fields), fields.get("params", {})
            if "id" not in fields:
                return None
            if method not in self._methods:
                raise ProtocolError(NO_SUCH_METHOD, f"there is no method {in_quotes(method)}")
            if not isinstance(params, dict):
                raise ProtocolError(INVALID_PARAMS, "params is not an object; send an object")
            return _encoded(request_id, result=self._methods[method](cast("Params", params)))
        except ProtocolError as error:
            return refusal(error.code, str(error), request_id)

    def _initialize(self, params: Params) -> object:
        wanted = params.get("protocolVersion")
        if not isinstance(wanted, str):
            detail = f"protocolVersion is not text; send a version such as {VERSIONS[0]}"
            raise ProtocolError(INVALID_PARAMS, detail)
        return {
            "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": self._about,
            "instructions": self._instructions,
        }

    def _call(self, params: Params) -> object:
        name, arguments = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str):
            raise ProtocolError(INVALID_PARAMS, "name is not text; send the name of a tool")
        if not isinstance(arguments, dict):
            raise ProtocolError(INVALID_PARAMS, "arguments is not an object; send an object")
        try:
            found = self._tools.call(name, msgspec.json.encode(arguments))
        except UnknownTool as error:
            raise ProtocolError(INVALID_PARAMS, str(error)) from error
        except Exception as error:  # A bug in one call must not end the calls of others.
            detail = f"the tool {name} failed: {type(error).__name__}; see the log of `rota mcp`"
            raise ProtocolError(INTERNAL_ERROR, detail) from error
        text = visible(msgspec.json.encode(found.content).decode())
        return {
            "content": [{"type": "text", "text": text}],
            "structuredContent": visible_value(found.content),
            "isError": found.is_error,
        }


def refusal(code: int, message: str, request_id: Id = None) -> bytes:
    """Return the answer to a request that is refused; without *request_id* to an unreadable one."""
    return _encoded(request_id, error={"code": code, "message": message})


def is_unreadable(answer: bytes) -> bool:
    """Return True if *answer* refuses a message as a whole: it is no request."""
    return msgspec.json.decode(answer).get("error", {}).get("code") in (MALFORMED, INVALID_REQUEST)


def _fields_of(message: bytes) -> dict[str, Any]:  # Any: as sent, checked field by field
    try:
        fields: object = msgspec.json.decode(message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(
            MALFORMED, f"the message is not valid JSON in UTF-8: {error}"
        ) from error
    if isinstance(fields, list):
        detail = "batches are not supported; send each message by itself"
        raise ProtocolError(INVALID_REQUEST, detail)
    if not isinstance(fields, dict):
        raise ProtocolError(INVALID_REQUEST, "the message is not an object")
    return cast("dict[str, Any]", fields)


def _id_of(fields: Mapping[str, object]) -> Id:
    """Return the id of a request; None for a message without one.

    Raises:
        ProtocolError: The id is neither text nor an integer.
    """
    found = fields.get("id")
    if "id" in fields and (isinstance(found, bool) or not isinstance(found, str | int)):
        raise ProtocolError(INVALID_REQUEST, "id is neither text nor an integer")
    return cast("Id", found)


def _method_of(fields: Mapping[str, object]) -> str:
    method = fields.get("method")
    if fields.get("jsonrpc") != "2.0":
        raise ProtocolError(INVALID_REQUEST, 'jsonrpc is not "2.0"')
    if not isinstance(method, str):
        raise ProtocolError(INVALID_REQUEST, "method is not text")
    return method


def _encoded(request_id: Id, **outcome: object) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, **outcome})
