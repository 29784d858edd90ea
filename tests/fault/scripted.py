"""A JSON-RPC backend that misbehaves on request.

It speaks HTTP over a bare asyncio server, because no HTTP library would write what these tests need written::

    async with ScriptedBackend() as backend:
        backend.on("add", Cut("half", "reset"))      # one method
        backend.default = Hang("head")                     # every other listed method
        ...                                          # drive the client under test against backend.url
        assert backend.calls("add") == 1

Listed methods answer honestly until told otherwise. ``rpc.discover`` answers with the listing and unlisted
methods with -32601, whatever ``default`` is, so that discovery works while the calls are spoilt;
``on("rpc.discover", ...)`` spoils the listing too. Nothing here sleeps: a
:class:`~tests.fault.behaviours.Hang` ends with ``release``, when the client hangs up, or when the backend
closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from typing import TYPE_CHECKING

from tests.fault.behaviours import Behaviour, Body, Ending, Honest, error, result
from tests.fault.methods import METHODS, Rpc, RpcFailure, openrpc
from tests.fault.wire import MAX_HEAD, BadRequest, Request, read_request

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_LOOPBACK = "127.0.0.1"
_STEPS_OF_ACCEPTING = 3  # of the loop, until asyncio has told of a connection
_NO_LINGER = struct.pack("ii", 1, 0)


class Listener:
    """An asyncio server on a free loopback port that ends all it began when it closes."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.port = 0
        self.connections = 0
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._closed = False

    @property
    def open_connections(self) -> int:
        """How many connections there are now."""
        return len(self._tasks)

    async def open(self) -> None:
        """Listen, after :meth:`close` on the port of before."""
        self._closed = False
        self._server = await asyncio.start_server(self._connected, _LOOPBACK, self.port, limit=MAX_HEAD, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    def refuse(self) -> None:
        """Take no more connections. Those that are open go on."""
        assert self._server is not None
        self._server.close()

    async def close(self) -> None:
        assert self._server is not None
        self._closed = True
        # asyncio loses a connection that it has accepted, but not told of, when the server closes.
        for one in self._server.sockets:  # none where it is closed already
            asyncio.get_running_loop().remove_reader(one.fileno())
        for _ in range(_STEPS_OF_ACCEPTING):
            await asyncio.sleep(0)
        self._server.close()
        while self._tasks:
            ending, self._tasks = self._tasks, {}
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
            for writer in ending.values():  # a task that was cancelled before its first step closed nothing
                writer.close()
        await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection. This is no coroutine: what has connected is known from the start, and closed for sure."""
        if self._closed:
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._accepted(reader, writer))
        self._tasks[task] = writer
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        # drain() returns only when the kernel has everything: a reset must not overtake what was sent
        # before it
        writer.transport.set_write_buffer_limits(high=0)
        try:
            # a cancelled task ends here quietly: asyncio would report the cancellation as an unhandled
            # failure
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self.serve(reader, writer)
        finally:
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


class Bystander(Listener):
    """The place that redirects point to. ``received`` is every byte that arrived; it should stay empty."""

    def __init__(self) -> None:
        super().__init__()
        self.received = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            self.received += data
            if b"\r\n\r\n" in data:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return


class _Exchange:
    """See :class:`tests.fault.behaviours.Exchange`."""

    def __init__(
        self,
        backend: ScriptedBackend,
        request: Request,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.request = request
        self.ending: Ending = "keep"
        self.released = backend.release
        self.other_port = backend.other.port
        self._backend = backend
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        try:
            await self._writer.drain()
        except ConnectionError:
            self._backend.abandoned.set()
            raise
        self._backend.bytes_sent += len(data)

    async def wait(self, event: asyncio.Event) -> bool:
        released = asyncio.ensure_future(event.wait())
        hung_up = asyncio.ensure_future(self._reader.read(1))
        try:
            await asyncio.wait({released, hung_up}, return_when=asyncio.FIRST_COMPLETED)
            if not released.done():
                self._backend.abandoned.set()
                self.ending = "close"
            return released.done()
        finally:
            released.cancel()
            hung_up.cancel()
            await asyncio.gather(released, hung_up, return_exceptions=True)

    def run(self) -> object:
        return self._backend.run(self.request)


class ScriptedBackend(Listener):
    """See the module's docstring.

    ``requests`` holds every request in order of arrival, ``faults`` what arrived and was no HTTP,
    ``connections`` counts the connections and ``bytes_sent`` what the kernel took for clients. ``release``
    lets hanging answers go on; ``abandoned`` is set once a client hung up before its answer was complete.
    ``other`` is the second listener that redirects point to. ``pages`` are what a GET of a path gets, else 404.
    With ``tls`` it speaks https, and ``connections`` are those whose handshake went well.
    """

    def __init__(
        self,
        methods: Sequence[Rpc] = METHODS,
        default: Behaviour | None = None,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(tls)
        self.default: Behaviour = default or Honest()
        self.requests: list[Request] = []
        self.faults: list[str] = []
        self.bytes_sent = 0
        self.release = asyncio.Event()
        self.abandoned = asyncio.Event()
        self.other = Bystander()
        self.pages: dict[str, Behaviour] = {}
        self._methods = {method.name: method for method in methods}
        self._scripts: dict[str, Behaviour] = {}
        self._arrived = asyncio.Condition()
        self._reserved = socket.socket()

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://{_LOOPBACK}:{self.port}/jsonrpc"

    @property
    def refused_url(self) -> str:
        """Return a URL where connections are refused: its port is bound, so nobody takes it, and nobody listens."""
        return f"http://{_LOOPBACK}:{self._reserved.getsockname()[1]}/jsonrpc"

    def end_row(self) -> None:
        """Forget the requests of a row, so that the next row of a table (tests/each.py) counts its own."""
        self.requests.clear()

    def on(self, method: str, behaviour: Behaviour) -> None:
        """From now on, this JSON-RPC method gets this behaviour."""
        self._scripts[method] = behaviour

    def calls(self, method: str) -> int:
        """How many requests for this JSON-RPC method have arrived."""
        return sum(request.method == method for request in self.requests)

    async def called(self, method: str, times: int = 1) -> None:
        """Return when this method has been requested that often; bound the wait with ``asyncio.timeout``."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: self.calls(method) >= times)

    def run(self, request: Request) -> object:
        """Call the listed method that the request names."""
        method = self._methods.get(request.method or "")
        if method is None:
            raise RpcFailure(-32601, "Method not found")
        return method(request.params)

    async def __aenter__(self) -> ScriptedBackend:
        self._reserved.bind((_LOOPBACK, 0))
        await self.other.open()
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
        await self.other.close()
        self._reserved.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = self.connections
        while True:
            try:
                request = await read_request(reader, connection)
            except (BadRequest, ValueError) as fault:
                self.faults.append(str(fault))
                writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            if request is None:
                return
            async with self._arrived:
                self.requests.append(request)
                self._arrived.notify_all()
            exchange = _Exchange(self, request, reader, writer)
            await self._behaviour(request).play(exchange)
            if exchange.ending == "reset":
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
                writer.transport.abort()
            if exchange.ending != "keep":
                return

    def _behaviour(self, request: Request) -> Behaviour:
        if request.verb != "POST":
            return self.pages.get(request.path.partition("?")[0], Body(status=404, content_type=None))
        if request.method is None:
            return error(-32700, "Parse error")
        if request.method in self._scripts:
            return self._scripts[request.method]
        if request.method == "rpc.discover":
            return result(openrpc(tuple(self._methods.values())))
        return self.default if request.method in self._methods else Honest()
