"""The API of the container engine: Docker, or an engine with the same API (Podman).

Every call has a timeout. The type of a failure shows the state afterwards:

- `EngineRefused`: the engine answered and did not carry out the call.
- `EngineSilent`: there was no answer; the engine may have carried out the call, or may still do so.

At most `CALLS_MAX` calls and `PULLS_MAX` pulls are in progress; further calls wait. Signals do not
wait, so that they are not queued behind the creation of containers.

aiodocker is imported with the first call, as it is installed only where containers are used.
"""

# pyright: reportUnknownMemberType=false, reportPrivateUsage=false
# aiodocker does not annotate the arguments that it passes on; see also `_transport_of`.

import asyncio
import os
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rota.executor.container.creation import Json
from rota.executor.container.stream_frames import Frames

if TYPE_CHECKING:  # An extra that need not be installed.
    from aiodocker import Docker
    from aiodocker.stream import Stream

DEFAULT_HOST = "unix:///var/run/docker.sock"

CALLS_MAX = 16  # An engine carries out only a few calls at a time.
PULLS_MAX = 4
CALL_S = 30.0  # A call takes a fraction of a second; on a machine that swaps, seconds.
START_S = 60.0
PULL_SILENCE_S = 120.0  # Unpacking layers and slow registries cause long times without progress.

NOT_FOUND, CONFLICT = 404, 409
_LOCAL = "unix://"
_NO_CONNECTION = 900  # aiodocker's status of an error without connection.


class EngineError(Exception):
    """A call of the engine failed; the message is for the owner of the job."""


class EngineRefused(EngineError):
    """The engine refused the call.

    Attributes:
        status: The HTTP status; 0 if the error was reported during a pull, or has no HTTP status.
    """

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class EngineSilent(EngineError):
    """The engine did not answer, or cannot be reached."""


class State(msgspec.Struct, frozen=True, rename="pascal"):
    """The state of a container's first process, as the engine describes it."""

    status: str
    running: bool
    exit_code: int
    started_at: str
    finished_at: str
    pid: int = 0
    oom_killed: bool = msgspec.field(default=False, name="OOMKilled")


class ContainerConfig(msgspec.Struct, frozen=True, rename="pascal"):
    """The configuration with which a container was created."""

    stop_signal: str | int | None = None


class Resources(msgspec.Struct, frozen=True, rename="pascal"):
    """The limits of a container that the engine enforces; zero or None for no limit."""

    nano_cpus: int | None = None
    cpu_quota: int | None = None
    memory: int | None = None
    pids_limit: int | None = None


class Container(msgspec.Struct, frozen=True, rename="pascal"):
    """A container as the engine describes it."""

    state: State
    config: ContainerConfig
    host_config: Resources


class Listed(NamedTuple):
    """A container in a list; *state* is ``created``, ``running``, ``exited`` or another word."""

    id: str
    labels: dict[str, str]
    state: str


def host_in(environ: Mapping[str, str]) -> str:
    """Return the address of the engine that *environ* names, or the default."""
    return environ.get("DOCKER_HOST") or DEFAULT_HOST


class Engine:
    """The engine's calls that an executor needs.

    Constructed on the loop that it uses. The first call connects.

    Args:
        host: The address, as in ``DOCKER_HOST``: ``unix:///path``, ``tcp://host:port`` or
            ``ssh://user@host``.
        call_s: The time limit of an ordinary call, in seconds.
    """

    def __init__(self, host: str = DEFAULT_HOST, *, call_s: float = CALL_S) -> None:
        self.host = host
        self._call_s = call_s
        self._client: Docker | None = None
        self._calls = asyncio.Semaphore(CALLS_MAX)
        self._pulls = asyncio.Semaphore(PULLS_MAX)
        self._log_drivers: frozenset[str] | None = None

    def may_be_reachable(self) -> bool:
        """Return True if the engine's socket exists, or is not a file of this machine."""
        return not self.is_local or os.path.exists(self.host.removeprefix(_LOCAL))

    @property
    def is_local(self) -> bool:
        """Whether the engine is on this machine, possibly with this process in a container."""
        return self.host.startswith(_LOCAL)

    async def log_drivers(self) -> frozenset[str]:
        """Return the names of the engine's log drivers; requested once."""
        if self._log_drivers is None:
            async with self._call("describe itself") as client:
                info = msgspec.convert(await client.system.info(), _Info)
            self._log_drivers = frozenset(info.plugins.log)
        return self._log_drivers

    async def create(self, body: Mapping[str, Json]) -> str:
        """Create a container and return its id.

        Raises:
            EngineRefused: The status is `NOT_FOUND` if the engine does not have the image.
            EngineSilent: The engine did not answer.
        """
        async with self._call("create a container") as client:
            return (await client.containers.create(body)).id

    async def start(self, container_id: str) -> None:
        """Start a container; on return, it runs or has run."""
        async with self._call("start a container", START_S) as client:
            await client.containers.container(container_id).start()

    async def inspect(self, container_id: str) -> Container:
        """Return the engine's description of a container."""
        async with self._call("describe a container") as client:
            return msgspec.convert(
                await client.containers.container(container_id).show(), Container
            )

    async def find(self, labels: Mapping[str, Json]) -> list[Listed]:
        """Return the containers with all of *labels*, including ended ones."""
        wanted = [f"{name}={value}" for name, value in labels.items()]
        filters = msgspec.json.encode({"label": wanted}).decode()
        async with self._call("list its containers") as client:
            found = await client.containers.list(all=True, filters=filters)
            return [Listed(each.id, each["Labels"], each["State"]) for each in found]

    async def kill(self, container_id: str, signal: str) -> None:
        """Send *signal* to the first process of a container.

        Raises:
            EngineRefused: The status is `CONFLICT` or `NOT_FOUND` if the container does not run.
            EngineSilent: The engine did not answer.
        """
        with self._explained("signal a container"):
            async with asyncio.timeout(self._call_s):
                client = await self._connected()
                await client.containers.container(container_id).kill(signal=signal)

    async def remove(self, container_id: str) -> None:
        """Kill a container if it runs, and remove it and its unnamed volumes; idempotent."""
        try:
            async with self._call("remove a container") as client:
                await client.containers.container(container_id).delete(force=True, v=True)
        except EngineRefused as error:
            if error.status != NOT_FOUND:
                raise

    async def pull(self, image: str, *, if_missing: bool) -> None:
        """Pull *image*; after `PULL_SILENCE_S` without progress, the pull fails.

        Args:
            image: The name of the image.
            if_missing: True to do nothing if the engine has the image when the pull's turn comes.
        """
        async with self._pulls:
            if if_missing and await self._has_image(image):
                return
            with self._explained(f"pull the image {image!r}"):
                async with asyncio.timeout(PULL_SILENCE_S) as limit:
                    loop = asyncio.get_running_loop()
                    client = await self._connected()
                    async for _ in client.images.pull(image, stream=True):
                        limit.reschedule(loop.time() + PULL_SILENCE_S)

    @asynccontextmanager
    async def attached(self, container_id: str, *, has_input: bool) -> AsyncGenerator["Streams"]:
        """Connect to the standard streams of a container that has not been started."""
        async with self._stream_client() as client, AsyncExitStack() as stack:
            container = client.containers.container(container_id)
            output = container.attach(stdout=True, stderr=True)
            await stack.enter_async_context(self._opened(output))
            given = container.attach(stdin=True) if has_input else None
            if given is not None:
                await stack.enter_async_context(self._opened(given))
                stack.callback(_drop, _transport_of(given))
            yield Streams(output, given)

    async def logs(self, container_id: str) -> AsyncGenerator[bytes]:
        """Yield the output of a container, past and future, in whole lines."""
        frames = Frames()
        async with self._stream_client() as client:
            with self._explained("send the output of a container"):
                # Not aiodocker's `log`, which decodes the output and drops what is not UTF-8.
                base = f"{client.docker_host}/{client.api_version}"
                async with client.session.get(
                    f"{base}/containers/{container_id}/logs",
                    params={"follow": "1", "stdout": "1", "stderr": "1"},
                    raise_for_status=True,
                ) as response:
                    async for part in response.content.iter_any():
                        yield frames.feed(part)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    @asynccontextmanager
    async def _call(self, what: str, limit_s: float = 0.0) -> AsyncGenerator["Docker"]:
        with self._explained(what):
            async with self._calls, asyncio.timeout(limit_s or self._call_s):
                yield await self._connected()

    @asynccontextmanager
    async def _stream_client(self) -> AsyncGenerator["Docker"]:
        # One client for each stream: a client has at most 100 connections.
        client = self._new_client((await self._connected()).api_version)
        try:
            yield client
        finally:
            await client.close()

    @asynccontextmanager
    async def _opened(self, stream: "Stream") -> AsyncGenerator[None]:
        with self._explained("attach to a container"):
            async with asyncio.timeout(self._call_s):
                await stream.__aenter__()
        try:
            yield
        finally:
            await stream.close()

    async def _has_image(self, image: str) -> bool:
        try:
            async with self._call("look for an image") as client:
                await client.images.inspect(image)
        except EngineRefused as error:
            if error.status == NOT_FOUND:
                return False
            raise
        return True

    async def _connected(self) -> "Docker":
        if self._client is None:
            await _load()
            self._client = self._client or self._new_client("auto")
        return self._client

    def _new_client(self, api_version: str) -> "Docker":
        from aiodocker import Docker

        try:
            return Docker(self.host, api_version=api_version)
        except ValueError as error:
            raise EngineSilent(
                f"{self.host!r} does not name a container engine: {error}"
            ) from error

    @contextmanager
    def _explained(self, what: str) -> Generator[None]:
        """Turn failures of the engine into an `EngineError`; other exceptions pass unchanged."""
        try:
            yield
        except EngineError:
            raise
        except Exception as error:
            if explained := _explain(error, f"the container engine at {self.host}", what):
                raise explained from error
            raise


class Streams:
    """The standard streams of a container."""

    def __init__(self, output: "Stream", given: "Stream | None") -> None:
        self._output = output
        self._given = given

    async def read(self) -> AsyncGenerator[bytes]:
        """Yield the container's output, byte for byte.

        Ends when the container has ended or has closed both streams, or when the connection breaks.
        """
        with suppress(*_broken()):
            while (message := await self._output.read_out()) is not None:
                yield message.data

    async def feed(self, content: bytes) -> None:
        """Write the container's input and close it; return when it is read, or cannot be read."""
        if self._given is not None:
            # aiodocker asserts that the connection exists; it does not after the engine's end.
            with suppress(*_broken(), AssertionError):
                await self._given.write_in(content)
                await self._given.close()


def _transport_of(stream: "Stream") -> asyncio.WriteTransport:
    response = stream._resp  # noqa: SLF001 - aiodocker has no public access to it.
    assert response is not None, "the stream is open"
    assert response.connection is not None, "the stream is open"
    transport = response.connection.transport
    assert isinstance(transport, asyncio.WriteTransport), "the stream is open"
    return transport


def _drop(transport: asyncio.WriteTransport) -> None:
    """Abort a connection whose remaining input is not read: otherwise it would never be closed."""
    if transport.get_write_buffer_size():  # A closed connection, which has no buffer, is left.
        transport.abort()


async def _load() -> None:
    """Import aiodocker in a thread: it takes 0.1 s."""
    try:
        await asyncio.to_thread(import_module, "aiodocker")
    except ImportError as error:
        raise EngineSilent(
            "containers require aiodocker on the node: pip install 'rota[node,docker]'"
        ) from error


def _broken() -> tuple[type[Exception], ...]:
    from aiodocker import DockerError
    from aiohttp import ClientError

    return (DockerError, ClientError, OSError)


def _explain(error: Exception, engine: str, what: str) -> EngineError | None:
    from aiodocker import DockerError

    match error:
        case TimeoutError():  # Before OSError, its base class.
            return EngineSilent(f"{engine} did not {what} in time")
        case DockerError() if error.status != _NO_CONNECTION:
            return EngineRefused(
                f"the container engine did not {what}: {error.message}", status=error.status
            )
        case msgspec.ValidationError():
            return EngineRefused(f"the response of {engine} is invalid: {error}", status=0)
        case _ if isinstance(error, _broken()):
            return EngineSilent(f"{engine} cannot be reached: {_why_unreached(error)}")
        case _:
            return None


def _why_unreached(error: Exception) -> str:
    from aiohttp import ClientConnectorError

    # aiodocker wraps the error in one of its own.
    match error.__context__ or error:
        case ClientConnectorError(os_error=OSError(errno=int(number))) if number > 0:
            why = os.strerror(number)
        case ClientConnectorError(os_error=cause):
            # Errors of name resolution have negative numbers.
            why = cause.strerror or str(cause)
        case _:
            return str(error)
    return f"{why}; start the engine, or set the node's DOCKER_HOST to another one"


class _Plugins(msgspec.Struct, rename="pascal"):
    log: list[str]


class _Info(msgspec.Struct, rename="pascal"):
    plugins: _Plugins
