"""Say how one service or group is now: what ``/status`` has of it, and its gauges and counters."""

import time
from collections.abc import Iterable, Iterator
from typing import Any

from gateway.auth.jwks import MAX_STALE
from gateway.concurrency.background import describe_problems
from gateway.model import Catalog
from gateway.service.resource import Resource
from gateway.service.service import Service
from gateway.telemetry.cells import Key


def resource_gauges(one: Resource) -> Iterator[tuple[Key, float]]:
    """Yield each known value of a service or a group by its family and labels."""
    name, discovery, catalog = one.name, one.discovery, one.discovery.current()
    values: dict[str, float] = {
        "service_available": not discovery.problem.cause,
        "streams_open": one.mount.streams.total,
        "sessions_open": one.mount.subscriptions.sessions,
    }
    if catalog is not None:
        values["catalog_tools"] = len(catalog.tools)
    if isinstance(one, Service):
        values |= _of_service(one, catalog)
    for what, value in values.items():
        yield (f"mcp_gateway_{what}", name), value
    for issuer, keys in one.auth.issuers.keys.items():
        if keys.age is not None:
            yield ("mcp_gateway_issuer_keys_age_seconds", name, issuer), keys.age
        if not keys.issuer.introspects:
            yield ("mcp_gateway_issuer_keys_max_age_seconds", name, issuer), MAX_STALE
    if isinstance(one, Service):
        for result in ("ok", "failed"):
            yield ("mcp_gateway_catalog_refreshes_total", name, result), one.discovery.refreshes[result]
        if one.certificate_end is not None:
            file = one.settings.backend.tls.cert_file or ""
            yield ("mcp_gateway_certificate_expiry_seconds", name, file), one.certificate_end


def _of_service(service: Service, catalog: Catalog | None) -> dict[str, float]:
    """Return what a group has none of its own of: what is counted on the way to a backend."""
    queue, breaker = service.learned.gate.queue, service.learned.gate.breaker
    values: dict[str, float] = {
        "queue_length": queue.waiting,
        "slots_in_use": queue.in_use,
        "slots": queue.size + queue.listing_slots,
        "breaker_open": breaker.open_circuits,
        "breaker_openings_total": breaker.openings,
        "backend_messages_dropped_total": service.transport.dropped,
        "backend_messages_unowned_total": service.transport.unowned,
    }
    if catalog is not None:
        age = service.discovery.age()
        values |= {
            "catalog_quarantined": len(catalog.quarantined),
            "catalog_pin_drift": sum(method.held_by_pin for method in catalog.quarantined),
            "catalog_age_seconds": age,
            "catalog_last_refresh_timestamp_seconds": time.time() - age,
        }
    return values


def resource_status(one: Resource) -> dict[str, Any]:
    """Return what ``/status`` says of a service or a group. The numbers are null without a listing for all callers, and
    where a group has none of its own."""
    catalog, issuers, of_service = one.discovery.current(), one.auth.issuers, one if isinstance(one, Service) else None
    problems = [*with_runbook("McpGatewayIssuerKeysOld", describe_problems(k.problem for k in issuers.keys.values()))]
    if of_service is not None:
        listing, lack = of_service.discovery.problem, of_service.discovery.lack
        breaker = of_service.learned.gate.breaker
        known, _ = of_service.explain(listing.error)
        failed = [problem | ({"diagnosis": known} if known else {}) for problem in describe_problems([listing])]
        problems = [
            *with_runbook("McpGatewayServiceNotListed", failed),
            *with_runbook("McpGatewayServiceErrors", describe_problems([of_service.discovery.astray])),
            *with_runbook("McpGatewayToolsQuarantined", describe_problems([lack])),
            *with_runbook("McpGatewayBreakerOpen", describe_problems([breaker.problem, breaker.problem_of_tool])),
            *problems,
        ]
    return {
        "name": one.name,
        "path": f"{one.settings.mount}/mcp",
        "tools": None if catalog is None else len(catalog.tools),
        "quarantined": None if of_service is None or catalog is None else len(catalog.quarantined),
        "listing_age": None if of_service is None or catalog is None else round(of_service.discovery.age(), 1),
        "callers_at_limit": one.mount.concurrency.full,
        "problems": problems,
        "jobs": [*one.background.describe(), *issuers.background.describe()],
    }


def with_runbook(alert: str, problems: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return problems, each with the part of docs/operating.md that says what to do."""
    return [{**one, "runbook": f"docs/operating.md#{alert.lower()}"} for one in problems]
