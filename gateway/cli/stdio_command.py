"""The command ``stdio``: one service for one client, which starts this process and ends it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from gateway.auth.authenticator import PresentedToken
from gateway.cli.options import UNUSABLE, configured_by_name, fail, read_token, run, token_or_fail, with_one_service
from gateway.cli.pipes import LineReader, LineWriter, claim_streams
from gateway.cli.stdio import Conversation
from gateway.config.service_files import ServiceFiles
from gateway.config.source import ConfigError
from gateway.errors import AuthUnavailable
from gateway.model import ANONYMOUS, Caller
from gateway.process.signals import stop_on_signal
from gateway.service.mount import Mount
from gateway.service.service import Service
from gateway.settings import ServiceSettings, Settings
from gateway.signing import SecretError, read_secrets
from gateway.store.memory import MemoryStore
from gateway.telemetry import audit, logs, tracing

TOKEN_VARIABLE: Final = "GATEWAY_TOKEN"  # noqa: S105, the name of a variable
_ON_A_TERMINAL: Final = (
    "This speaks MCP on standard input and output: a client starts it, and no person types here. To make the entry "
    "for a client: connect URL. Ctrl-C ends it."
)

_GRACE: Final = 2.0
"""Seconds for the calls that run when the input ends. Their client has gone, or waits for this process to end."""
_LAST_WORDS: Final = 0.5
"""Seconds to write that the subscriptions end."""

Token = Callable[[], str | None]


@click.command()
@configured_by_name
@with_one_service
@click.option("--token-file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="File with an access token to act with; with auth.mode: jwt it is read for each message. Absent: "
                   f"${TOKEN_VARIABLE}, if it is set.")  # fmt: skip
def stdio(settings: Settings, service: ServiceSettings, token_file: Path | None, **_: Any) -> None:
    """Serve MCP on standard input and output, for the client that starts this."""
    token = _token_from(token_file)
    if sys.stdin is not None and sys.stdin.isatty():
        click.echo(_ON_A_TERMINAL, err=True)
    try:
        service = _with_token(service, token)
        if settings.telemetry.audit.to == audit.STDOUT:
            fail(UNUSABLE, "telemetry.audit.to: stdout belongs to the client here. Name a file")
        incoming, outgoing = claim_streams()
        logs.configure(settings.telemetry.log.level)
        logs.choose_requests(settings.telemetry.log.requests)
        audit.start(settings.telemetry.audit)
        tracing.start(settings.telemetry)
        run(_serve_until_signal(service, token, incoming, outgoing))
    except ConfigError as error:
        fail(UNUSABLE, *error.faults)
    except (SecretError, audit.TelemetryFault) as error:
        fail(UNUSABLE, str(error))
    except OSError as error:
        fail(UNUSABLE, f"Standard input and output must be open: {error.strerror}")
    finally:
        audit.stop()
        tracing.stop()


def _token_from(file: Path | None) -> Token:
    """Return what reads the token. Ends the program where the file cannot be read now."""
    if file is None:
        return lambda: os.environ.get(TOKEN_VARIABLE) or None
    token_or_fail(file)
    return lambda: read_token(file)


def _with_token(settings: ServiceSettings, token: Token) -> ServiceSettings:
    """Return the settings under which the token has an effect. With ``auth.mode: off`` it is the service's own, and is
    sent there: the client and this process belong to one user. Raises :class:`ConfigError` where it has no effect, or
    is missing."""
    auth, credentials = settings.auth, settings.backend.credentials
    given = token()
    if auth.traits.authenticates:
        if given is None and auth.anonymous == "none":
            knob = settings.knob("auth.anonymous")
            raise ConfigError([f"A token is needed here ({knob} is none): give --token-file, or set {TOKEN_VARIABLE}"])
        return settings
    if given is None:
        return settings
    if credentials.mode != "auto":
        knob = settings.knob("backend.credentials")
        raise ConfigError([f"A token is given, but nothing takes it: auth.mode is off, and {knob} has its own"])
    values = {**credentials.model_dump(exclude_unset=True), "mode": "static"}
    values["send"] = {"headers": {"Authorization": f"Bearer {given}"}}
    try:
        section = type(credentials).model_validate(values)
    except ValueError:  # whose text has the token
        raise ConfigError(["The token has characters that no header may have"]) from None
    return replace(settings, backend=settings.backend.model_copy(update={"credentials": section}))


async def _serve_until_signal(settings: ServiceSettings, token: Token, incoming: int, outgoing: int) -> None:
    stop = asyncio.Event()
    stop_on_signal(stop)
    await serve_client(settings, token, incoming, outgoing, stop)


async def serve_client(
    settings: ServiceSettings, token: Token, incoming: int, outgoing: int, stop: asyncio.Event
) -> None:
    """Serve one client on two descriptors until it ends its side, stops reading, or ``stop`` is set."""
    secrets, files, mount = read_secrets(settings.server.secret_file), await ServiceFiles.read(settings), Mount()
    service = await Service.build(settings, files, MemoryStore(), secrets, mount=mount)
    service.start()
    longest = settings.server.max_body
    writer = LineWriter(outgoing)
    conversation = Conversation(service.site.endpoint, lambda: _caller(service, token), writer.write, longest)

    async def converse() -> None:
        async for line in LineReader(incoming, longest).lines():
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
        await service.close()
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


async def _caller(service: Service, token: Token) -> Caller:
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
        raise authenticator.missing_token_error()
    return Caller(view=access.view_of(principal), principal=principal)
