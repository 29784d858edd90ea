"""The command ``stdio``: one service for one client, which starts this process and ends it.

Each standard stream has a daemon thread: the non-blocking mode of a pipe is shared with other processes that hold it,
not every system has one, and a blocked thread never delays the end.
"""

import asyncio
import errno
import os
import select
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeVar

import click

from gateway.auth.api_keys import is_key
from gateway.auth.authenticator import NO_TOKEN, PresentedToken
from gateway.cli import options
from gateway.cli.stdio import Conversation
from gateway.config.source import ConfigError
from gateway.errors import AuthUnavailable, Unauthorized
from gateway.model import ANONYMOUS, Caller
from gateway.process.signals import stop_on_signal
from gateway.service.group import build_alone
from gateway.service.mount import Mount
from gateway.service.resource import Resource
from gateway.service.service import Service
from gateway.settings import ResourceSettings, ServiceSettings, Settings
from gateway.signing import SecretError
from gateway.telemetry import audit, logs, tracing

TOKEN_VARIABLE: Final = "GATEWAY_TOKEN"  # noqa: S105, the name of a variable
_ON_A_TERMINAL: Final = (
    "This speaks MCP on standard input and output: a client starts it, and no person types here. To make the entry "
    "for a client: connect URL. Ctrl-C ends it."
)

_GRACE: Final = 2.0
"""Seconds for the calls that run when the input ends. Their client has gone, or waits for this process to end."""
_LAST_WORDS: Final = 0.5  # seconds to write that the subscriptions end
_LAST_SPANS: Final = 1.0  # seconds to send the spans that wait: clients kill a server that does not end

_CHUNK: Final = 65536

Token = Callable[[], str | None]
Result = TypeVar("Result")


@click.command()
@options.configured_by_name
@options.with_one_service
@click.option("--token-file", type=options.FILE, metavar="FILE",
              help="File with an access token to act with; with auth.mode: jwt it is read for each message. Absent: "
                   f"${TOKEN_VARIABLE}, if it is set.")  # fmt: skip
def stdio(settings: Settings, service: ResourceSettings, token_file: Path | None, **_: Any) -> None:
    """Serve MCP on standard input and output, for the client that starts this."""
    token = _token_from(token_file)
    if sys.stdin is not None and sys.stdin.isatty():
        click.echo(_ON_A_TERMINAL, err=True)
    try:
        service = _with_token(service, token)
        if settings.telemetry.audit.to == audit.STDOUT:
            options.fail(options.UNUSABLE, "telemetry.audit.to: stdout belongs to the client here. Name a file")
        incoming, outgoing = claim_streams()
        logs.configure(settings.telemetry.log.level)
        logs.choose_requests(settings.telemetry.log.requests)
        audit.start(settings.telemetry.audit)
        tracing.start(settings.telemetry)
        options.run(_serve_until_signal(service, token, incoming, outgoing))
    except ConfigError as error:
        options.fail(options.UNUSABLE, *error.faults)
    except (SecretError, audit.TelemetryFault) as error:
        options.fail(options.UNUSABLE, str(error))
    except OSError as error:
        options.fail(options.UNUSABLE, f"Standard input and output must be open: {error.strerror}")
    finally:
        audit.stop()
        tracing.stop(_LAST_SPANS)


def _token_from(file: Path | None) -> Token:
    """Return what reads the token. Ends the program where the file cannot be read now."""
    if file is None:
        return lambda: os.environ.get(TOKEN_VARIABLE) or None
    options.token_or_fail(file)
    return lambda: options.read_token(file)


def _with_token(settings: ResourceSettings, token: Token) -> ResourceSettings:
    """Return the settings under which the token has an effect. With ``auth.mode: off`` it is sent to the service: the
    client and this process belong to one user. Raises :class:`ConfigError` where it has no effect, or is missing."""
    auth, given = settings.auth, token()
    if auth.traits.authenticates:
        if given is None and auth.anonymous == "none":
            knob = settings.knob("auth.anonymous")
            raise ConfigError([f"A token is needed here ({knob} is none): give --token-file, or set {TOKEN_VARIABLE}"])
        return settings
    if given is None:
        return settings
    if not isinstance(settings, ServiceSettings):
        raise ConfigError(["A token is given, but nothing takes it: auth.mode of the group is off"])
    credentials = settings.backend.credentials
    if credentials.mode != "auto":
        knob = settings.knob("backend.credentials")
        raise ConfigError([f"A token is given, but nothing takes it: auth.mode is off, and {knob} has its own"])
    if is_key(given):
        raise ConfigError(["The token is an API key of a gateway, which no service is sent: set auth.mode: keys here"])
    values = {**credentials.model_dump(exclude_unset=True), "mode": "static"}
    values["send"] = {"headers": {"Authorization": f"Bearer {given}"}}
    try:
        section = type(credentials).model_validate(values)
    except ValueError:  # whose text has the token
        raise ConfigError(["The token has characters that no header may have"]) from None
    return replace(settings, backend=settings.backend.model_copy(update={"credentials": section}))


async def _serve_until_signal(settings: ResourceSettings, token: Token, incoming: int, outgoing: int) -> None:
    await serve_client(settings, token, incoming, outgoing, stop_on_signal())


async def serve_client(
    settings: ResourceSettings, token: Token, incoming: int, outgoing: int, stop: asyncio.Event
) -> None:
    """Serve one client on two descriptors until it ends its side, stops reading, or ``stop`` is set."""
    built = await build_alone(settings, mount := Mount(), lambda _: None)
    service = built[-1]
    for one in built:
        if isinstance(one, Service):
            one.discovery.explain_with(one.explain, tell_callers=True)  # the client is the operator's own
        one.start()
    longest = settings.server.max_body
    writer = LineWriter(outgoing)
    conversation = Conversation(service.site.endpoint, lambda: _caller(service, token), writer.write, longest)

    async def converse() -> None:
        async for line in read_lines(incoming, longest):
            await conversation.receive(line)
        mount.subscriptions.close()
        await conversation.finish(_GRACE)
        await conversation.close()

    try:
        await _first(converse(), stop.wait(), writer.broken.wait())
        mount.subscriptions.close()
        if not writer.broken.is_set():
            await conversation.finish(_LAST_WORDS)
    finally:
        await conversation.close()
        await mount.close()
        for one in reversed(built):
            await one.close()
        writer.close()


async def _first(*works: Any) -> None:
    """Return when the first of these ends, and cancel the others. A broken pipe is an end."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, ConnectionError):
            raise result


async def _caller(service: Resource, token: Token) -> Caller:
    """Return who the client is, by its token as it is now. Raises what the authenticator raises."""
    authenticator, access = service.site.authenticator, service.access
    if authenticator is None:
        return ANONYMOUS
    try:
        raw = token()
    except OSError:
        raise AuthUnavailable("The token file cannot be read") from None
    values = () if raw is None else (f"Bearer {raw}",)
    principal = await authenticator.authenticate(PresentedToken(values, (), "POST", "/mcp", False, ""))
    if not access.may_enter(principal):
        raise Unauthorized(NO_TOKEN)
    return Caller(view=access.view_of(principal), principal=principal)


def claim_streams() -> tuple[int, int]:
    """Return descriptors of standard input and output for this command alone. Descriptor 1 becomes standard error: a
    library's prints must not get between the messages. Raises :class:`OSError` where a stream is closed."""
    if sys.__stdin__ is None or sys.__stdout__ is None:  # its number may be that of another file by now
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # standard error is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    return incoming, outgoing


class _Thread:
    """Run functions in a thread, one after another."""

    def __init__(self, name: str) -> None:
        self._work: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def call(self, function: Callable[[], Result]) -> asyncio.Future[Result]:
        """Return what the function will return, or the :class:`OSError` that it will raise."""
        done: Future[Result] = Future()
        self._work.put((function, done))
        return asyncio.wrap_future(done)

    def end(self) -> None:
        """End the thread after the work that it has."""
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            function, done = work
            if not done.set_running_or_notify_cancel():
                continue
            try:
                done.set_result(function())
            except OSError as error:
                done.set_exception(error)


async def read_lines(descriptor: int, longest: int) -> AsyncIterator[bytes | None]:
    """Yield each line of a descriptor until it ends, without its end; None stands for one of more than ``longest``
    bytes. It is read no further than its lines are consumed."""
    thread, line = _Thread("stdin"), bytearray()
    is_long = False  # the rest of such a line is dropped, whatever its length
    try:
        while chunk := await thread.call(lambda: _read(descriptor)):
            *ends, begun = chunk.split(b"\n")
            for end in ends:
                is_long = is_long or len(line) + len(end) > longest
                yield None if is_long else bytes(line + end)
                line.clear()
                is_long = False
            is_long = is_long or len(line) + len(begun) > longest
            line += b"" if is_long else begun
    finally:
        thread.end()
    if line or is_long:
        yield None if is_long else bytes(line)


def _read(descriptor: int) -> bytes:
    while True:
        try:
            return os.read(descriptor, _CHUNK)
        except BlockingIOError:  # the mode of who started this
            select.select([descriptor], [], [])
        except ConnectionError:  # a socket whose peer is gone
            return b""


class LineWriter:
    """Write lines to a descriptor, each as a whole. ``broken`` is set once the reader has gone."""

    def __init__(self, descriptor: int) -> None:
        self.broken = asyncio.Event()
        self._descriptor = descriptor
        self._thread = _Thread("stdout")
        mode = os.fstat(descriptor).st_mode
        # The loop notices that the reader of one of these has gone.
        self._watching = os.name == "posix" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))
        if self._watching:
            blocks = os.get_blocking(descriptor)
            asyncio.get_running_loop().add_reader(descriptor, self._lose)
            os.set_blocking(descriptor, blocks)  # uvloop changes the mode

    async def write(self, line: bytes) -> None:
        """Write a line and its end; return once that is done. Raises :class:`BrokenPipeError`."""
        if self.broken.is_set():
            raise BrokenPipeError
        try:
            await self._thread.call(lambda: _write_all(self._descriptor, line + b"\n"))
        except OSError:
            self._lose()
            raise BrokenPipeError from None

    def close(self) -> None:
        """Stop watching the descriptor, and end the thread. The descriptor stays open."""
        self._unwatch()
        self._thread.end()

    def _lose(self) -> None:
        self._unwatch()
        self.broken.set()

    def _unwatch(self) -> None:
        if self._watching:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._watching = False


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # the mode of who started this
            select.select([], [descriptor], [])
