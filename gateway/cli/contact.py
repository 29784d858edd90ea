"""Reach one service for a command: build it, act as a caller, and say what is wrong where that fails."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from gateway.auth.compact import InvalidToken, Undecidable
from gateway.backend.http import HEADERS
from gateway.cli import report
from gateway.cli.options import FAILED, NO_LISTING, UNUSABLE
from gateway.config.service_files import ServiceFiles, backend_tls
from gateway.config.source import ConfigError
from gateway.diagnosis.access import TokenReport
from gateway.diagnosis.no_listing import NEEDS_TOKEN, diagnose, diagnose_endpoint
from gateway.diagnosis.trouble import Diagnosis, Elsewhere, Trouble
from gateway.errors import CatalogUnavailable, GatewayError, Unauthorized, UnknownTool
from gateway.http_client.choice import open_client
from gateway.listing.dialect import NoListing, Step
from gateway.model import ANONYMOUS, Caller, Catalog, Listing
from gateway.service.group import build_alone
from gateway.service.mount import Mount
from gateway.service.resource import BuildContext, Resource
from gateway.service.service import Service
from gateway.settings import CustomListing, ResourceSettings
from gateway.signing import SecretError
from gateway.store.memory import MemoryStore
from gateway.text import did_you_mean

Work: TypeAlias = Callable[[Any, Caller, Catalog], Coroutine[Any, Any, Any]]
Preparation: TypeAlias = Callable[[Resource], Coroutine[Any, Any, None]]


@dataclass(eq=False)
class ContactFailed(Exception):
    """Raised where a command cannot do its work, with the exit ``code`` and the ``lines`` that say why."""

    code: int
    lines: tuple[str, ...]
    diagnosis: Diagnosis | None = None
    steps: tuple[Step, ...] = ()
    token: TokenReport | None = None


async def contact(
    settings: ResourceSettings, work: Work, token: str | None = None, first: Preparation | None = None
) -> Any:
    """Return what ``work``, after ``first``, makes of what the token's bearer sees. Raises :class:`ContactFailed`."""
    try:
        with report.progress(", ".join(service.backend.url for service in settings.services)) as note:
            built = await build_alone(settings, Mount(), note)
            try:
                if first is not None:
                    await first(built[-1])
                return await _work(built[-1], work, token)
            finally:
                for one in reversed(built):
                    await one.close()
    except (ConfigError, SecretError) as error:
        raise ContactFailed(UNUSABLE, tuple(str(error).splitlines())) from error


async def _work(service: Resource, work: Work, token: str | None) -> Any:
    caller = await _caller(service, token)
    try:
        catalog = await service.discovery.catalog(caller)
    except GatewayError as error:
        await _diagnose(service, caller, error.__cause__)
        reason = error.__cause__.message if isinstance(error.__cause__, GatewayError) else error.message
        if isinstance(error, CatalogUnavailable) and not isinstance(service, Service):  # a group knows why
            reason = service.discovery.problem.cause or reason
        code = NO_LISTING if isinstance(error, CatalogUnavailable) else FAILED
        needs_token = token is None and isinstance(error, Unauthorized)
        raise ContactFailed(code, (reason,), NEEDS_TOKEN if needs_token else None) from error
    catalog = service.access.visible_catalog(caller, catalog) if token else catalog
    try:
        return await work(service, caller, catalog)
    except NoListing as error:
        await _diagnose(service, caller, error)
    except UnknownTool as error:
        raise ContactFailed(FAILED, (_explained(error.message, catalog),)) from error
    except GatewayError as error:
        raise ContactFailed(FAILED, (error.message,)) from error


async def _caller(service: Resource, token: str | None) -> Caller:
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


async def _diagnose(service: Resource, caller: Caller, failure: BaseException | None) -> None:
    """Raise why the search for a listing failed. Return where that is no such failure, or a group's."""
    if not isinstance(service, Service):
        return
    settings = service.settings
    trouble = Trouble.of(settings, failure, service.secrets, has_token=caller.principal is not None)
    if trouble is None:
        return

    async def probe_listing() -> Listing:
        listing = settings.backend.listing.model_copy(update={"dialect": "auto", "custom": CustomListing()})
        backend = settings.backend.model_copy(update={"listing": listing})
        files = await ServiceFiles.read(settings)
        other = await Service.build(replace(settings, backend=backend), BuildContext(files, MemoryStore()))
        try:
            return await other.reader.fetch_listing(caller)
        finally:
            await other.close()

    async def ask_here(method: str, params: Any) -> Any:
        try:
            return await service.reader.result(caller, method, params)
        except GatewayError:
            return None

    found = await _ask_elsewhere(service, lambda elsewhere: diagnose(trouble, elsewhere), probe_listing, ask_here)
    if found.in_file:
        knob = settings.knob("backend.listing.file")
        lines = [f"{knob}: {fault}" for fault in found.cause.splitlines()]
    else:
        steps = report.no_listing(settings, trouble.steps)
        lines = [*steps, f"cause        {found.cause}", f"next         {found.next}"]
    code = UNUSABLE if found.in_file else NO_LISTING
    raise ContactFailed(code, tuple(lines), found, trouble.steps) from failure


async def find_endpoint(service: Resource, catalog: Catalog) -> ContactFailed | None:
    """Return why calls cannot work although there is a listing, None where that is not known. The usual paths are
    asked where no JSON-RPC endpoint is at the address of calls."""
    faults = sorted((one for one in catalog.endpoints if one.kind != "odd"), key=lambda one: one.kind)
    if not faults or not isinstance(service, Service):
        return None
    backend = service.settings.backend
    listing = backend.listing.model_copy(update={"url": None})
    settings = replace(service.settings, backend=backend.model_copy(update={"listing": listing}))
    trouble = Trouble(settings, (), has_token=False, secrets=tuple(service.secrets))
    found = await _ask_elsewhere(service, lambda elsewhere: diagnose_endpoint(trouble, elsewhere, faults[0]))
    more = [f"             {fault}" for fault in faults[1:]]
    return ContactFailed(NO_LISTING, (f"cause        {found.cause}", *more, f"next         {found.next}"), found)


async def _nowhere(*_: Any) -> Any:
    raise NoListing([])


async def _ask_elsewhere(
    service: Service,
    ask: Callable[[Elsewhere], Coroutine[Any, Any, Diagnosis]],
    probe_listing: Callable[[], Coroutine[Any, Any, Listing]] = _nowhere,
    ask_here: Callable[[str, Any], Coroutine[Any, Any, Any]] = _nowhere,
) -> Diagnosis:
    """Return what further requests find. They do not go through the client of calls, which may answer challenges."""
    tls = backend_tls(service.settings)
    outbound = open_client(service.settings, tls, HEADERS, lambda _: True, digest=False)
    try:
        return await ask(Elsewhere(outbound, tls, probe_listing, ask_here))
    finally:
        await outbound.close()
