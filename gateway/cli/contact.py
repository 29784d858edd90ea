"""Reach one service for a command: build it, act as a caller, and say what is wrong where that fails."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from gateway.auth.compact import InvalidToken, Undecidable
from gateway.backend.client import HEADERS
from gateway.backend.redaction import prepare_secrets, redact_text
from gateway.cli import report
from gateway.cli.options import FAILED, NO_LISTING, UNUSABLE
from gateway.config.service_files import ServiceFiles, backend_tls
from gateway.config.source import ConfigError
from gateway.credentials import correct_credentials
from gateway.credentials.grants import CredentialUnavailable
from gateway.diagnosis.elsewhere import Elsewhere
from gateway.diagnosis.no_listing import NEEDS_TOKEN, Diagnosis, Trouble, diagnose
from gateway.diagnosis.token import TokenReport
from gateway.errors import CatalogUnavailable, GatewayError, Unauthorized, UnknownTool
from gateway.http_client.response import ConnectFailed, DeadlinePassed, OutboundError
from gateway.http_client.transport import open_transport
from gateway.listing.dialect import NoListing, Step
from gateway.model import ANONYMOUS, Caller, Catalog, Listing, SourceAnswer
from gateway.service.service import Service
from gateway.settings import CustomListing, ServiceSettings
from gateway.signing import SecretError, read_secrets
from gateway.store.memory import MemoryStore
from gateway.text import did_you_mean, printable

Work: TypeAlias = Callable[[Service, Caller, Catalog], Coroutine[Any, Any, Any]]
Preparation: TypeAlias = Callable[[Service], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class ContactFailed(Exception):
    """Raised where a command cannot do its work. ``code`` is the exit code, ``lines`` say why. ``diagnosis`` and
    ``steps`` are set where the service gave no listing, ``token`` where one was not accepted."""

    code: int
    lines: tuple[str, ...]
    diagnosis: Diagnosis | None = None
    steps: tuple[Step, ...] = ()
    token: TokenReport | None = None


async def contact(
    settings: ServiceSettings, work: Work, token: str | None = None, first: Preparation | None = None
) -> Any:
    """Return the result of ``work``, which gets the catalog that the bearer of ``token`` sees. ``first`` runs before.
    Raises :class:`ContactFailed`."""
    try:
        secrets = read_secrets(settings.server.secret_file)
        files = await ServiceFiles.read(settings)
        with report.Progress(settings.backend.url) as progress:
            service = await Service.build(settings, files, MemoryStore(), secrets, progress=progress.note)
            try:
                if first is not None:
                    await first(service)
                return await _work(service, work, token)
            finally:
                await service.close()
    except ConfigError as error:
        raise ContactFailed(UNUSABLE, error.faults) from error
    except SecretError as error:
        raise ContactFailed(UNUSABLE, (str(error),)) from error


async def _work(service: Service, work: Work, token: str | None) -> Any:
    caller = await _caller(service, token)
    try:
        catalog = await service.discovery.catalog(caller)
    except GatewayError as error:
        cause = error.__cause__
        if isinstance(cause, NoListing):
            raise await _no_listing(service, caller, cause.steps) from error
        if isinstance(cause, CredentialUnavailable):
            raise await _no_credential(service, caller, cause) from error
        reason = cause.message if isinstance(cause, GatewayError) else error.message
        code = NO_LISTING if isinstance(error, CatalogUnavailable) else FAILED
        needs_token = token is None and isinstance(error, Unauthorized)
        raise ContactFailed(code, (reason,), NEEDS_TOKEN if needs_token else None) from error
    catalog = service.access.visible_catalog(caller, catalog) if token else catalog
    try:
        return await work(service, caller, catalog)
    except NoListing as error:
        raise await _no_listing(service, caller, error.steps) from error
    except UnknownTool as error:
        raise ContactFailed(FAILED, (_explained(error.message, catalog),)) from error
    except GatewayError as error:
        raise ContactFailed(FAILED, (error.message,)) from error


async def _caller(service: Service, token: str | None) -> Caller:
    if token is None:
        return ANONYMOUS
    try:
        return await service.caller(token)
    except InvalidToken as error:
        found = TokenReport.of(service.settings, service.auth.policies, token, refusal=str(error))
        raise ContactFailed(FAILED, (f"The token is not accepted: {error}", *found.lines()), token=found) from error
    except Undecidable as error:
        raise ContactFailed(FAILED, (f"The token cannot be verified: {error}",)) from error


def _explained(message: str, catalog: Catalog) -> str:
    """Return the message about an unknown tool, with why it is not offered, or which may be meant."""
    unknown, _, meant = message.partition(". Did you mean ")
    name = unknown.rpartition(" ")[2]
    left_out = next((method for method in catalog.quarantined if method.name == name), None)
    if left_out is not None:
        return f"{unknown} is quarantined: {left_out.reason}; {left_out.remedy}"
    if name in catalog.hidden:
        return f"{unknown} is hidden by catalog.include and exclude"
    return message if meant else message + did_you_mean(name, catalog.by_name)


async def _no_credential(service: Service, caller: Caller, failure: CredentialUnavailable) -> ContactFailed:
    """Return why there is no credential. A login that got no answer is treated like a question about the listing."""
    error = failure.__cause__
    if isinstance(error, OutboundError):
        late, unreachable = isinstance(error, DeadlinePassed), isinstance(error, ConnectFailed)
        answer = SourceAnswer(str(error), unreachable=unreachable, away=True, late=late)
        return await _no_listing(service, caller, (Step("login", answer),))
    cause = f"The gateway gets no credential for the service: {printable(failure.reason)}."
    again = "Run this command again later."
    found = Diagnosis(cause, again if failure.busy else correct_credentials(service.settings))
    return ContactFailed(NO_LISTING, tuple(_lines(service.settings, (), found)), found)


async def _no_listing(service: Service, caller: Caller, steps: tuple[Step, ...]) -> ContactFailed:
    settings = service.settings

    async def probe_listing() -> Listing:
        listing = settings.backend.listing.model_copy(update={"dialect": "auto", "custom": CustomListing()})
        backend = settings.backend.model_copy(update={"listing": listing})
        files = await ServiceFiles.read(settings)
        other = await Service.build(replace(settings, backend=backend), files, MemoryStore(), ())
        try:
            return await other.reader.fetch_listing(caller)
        finally:
            await other.close()

    # Not the client of calls, which may answer challenges.
    outbound = open_transport(settings, backend_tls(settings), HEADERS, lambda _: True, digest=False)
    try:
        has_token = caller.principal is not None
        found = await diagnose(Trouble(settings, steps, has_token, Elsewhere(outbound), probe_listing))
    finally:
        await outbound.close()

    secrets = prepare_secrets(service.secrets)

    def clean(text: str) -> str:
        return printable(redact_text(text, secrets))

    found = replace(found, cause=clean(found.cause), next=clean(found.next))
    if found.in_file:
        knob = settings.knob("backend.listing.file")
        return ContactFailed(UNUSABLE, tuple(f"{knob}: {fault}" for fault in found.cause.splitlines()), found, steps)
    return ContactFailed(NO_LISTING, tuple(_lines(settings, steps, found)), found, steps)


def _lines(settings: ServiceSettings, steps: Iterable[Step], found: Diagnosis) -> Iterable[str]:
    yield from report.no_listing(settings, steps)
    yield f"cause        {found.cause}"
    yield f"next         {found.next}"
