"""Say how one service is now: what ``/status`` has of it, and its gauges and counters."""

import time
from collections.abc import Iterable, Iterator
from typing import Any

from gateway.auth.jwks import MAX_STALE
from gateway.concurrency.background import describe_problems
from gateway.service.mount import Mount
from gateway.service.service import Service
from gateway.telemetry.cells import Key


def service_gauges(service: Service, mount: Mount) -> Iterator[tuple[Key, float]]:
    """Yield each known value by its family and labels."""
    gate, name, discovery = service.learned.gate, service.name, service.discovery
    queue, breaker = gate.queue, gate.breaker
    values: dict[str, float] = {
        "service_available": not discovery.problems[0].cause,
        "queue_length": queue.waiting,
        "slots_in_use": queue.in_use,
        "slots": queue.size + queue.listing_slots,
        "breaker_open": breaker.open_circuits,
        "breaker_openings_total": breaker.openings,
        "backend_messages_dropped_total": service.transport.dropped,
        "streams_open": mount.streams.total,
        "sessions_open": mount.subscriptions.sessions,
    }
    if (catalog := discovery.current()) is not None:
        age = discovery.age()
        values |= {
            "catalog_tools": len(catalog.tools),
            "catalog_quarantined": len(catalog.quarantined),
            "catalog_pin_drift": sum(method.held_by_pin for method in catalog.quarantined),
            "catalog_age_seconds": age,
            "catalog_last_refresh_timestamp_seconds": time.time() - age,
        }
    for what, value in values.items():
        yield (f"mcp_gateway_{what}", name), value
    for result in ("ok", "failed"):
        yield ("mcp_gateway_catalog_refreshes_total", name, result), discovery.refreshes[result]
    for issuer, keys in service.auth.issuers.keys.items():
        if keys.age is not None:
            yield ("mcp_gateway_issuer_keys_age_seconds", name, issuer), keys.age
        if not keys.issuer.introspects:
            yield ("mcp_gateway_issuer_keys_max_age_seconds", name, issuer), MAX_STALE
    if service.certificate_end is not None:
        file = service.settings.backend.tls.cert_file or ""
        yield ("mcp_gateway_certificate_expiry_seconds", name, file), service.certificate_end


def service_status(service: Service, mount: Mount) -> dict[str, Any]:
    """Return what ``/status`` says of the service. The numbers are null without a listing for all callers."""
    discovery, settings = service.discovery, service.settings
    catalog, issuers, breaker = discovery.current(), service.auth.issuers, service.learned.gate.breaker
    listing, lack = discovery.problems
    known = service.explain(listing.error)
    failed = [one | ({"diagnosis": known} if known else {}) for one in describe_problems([listing])]
    of_issuers = (keys.problem for keys in issuers.keys.values())
    return {
        "name": service.name,
        "path": f"{settings.mount}/mcp",
        "tools": None if catalog is None else len(catalog.tools),
        "quarantined": None if catalog is None else len(catalog.quarantined),
        "listing_age": None if catalog is None else round(discovery.age(), 1),
        "callers_at_limit": mount.concurrency.full,
        "problems": [
            *with_runbook("McpGatewayServiceNotListed", failed),
            *with_runbook("McpGatewayToolsQuarantined", describe_problems([lack])),
            *with_runbook("McpGatewayBreakerOpen", describe_problems([breaker.problem, breaker.problem_of_tool])),
            *with_runbook("McpGatewayIssuerKeysOld", describe_problems(of_issuers)),
        ],
        "jobs": [*service.background.describe(), *issuers.background.describe()],
    }


def with_runbook(alert: str, problems: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return problems, each with the part of docs/operating.md that says what to do."""
    return [{**one, "runbook": f"docs/operating.md#{alert.lower()}"} for one in problems]
