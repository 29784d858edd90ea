"""Find audiences that several services accept: each service is a protected resource of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gateway.auth.claims import issuer_policy
from gateway.settings import ServiceSettings


def shared_audience_faults(services: Iterable[ServiceSettings]) -> Iterator[str]:
    """Yield a fault for each audience of an issuer that several services accept, unless all of them set
    ``auth.shared_audience``. For an issuer that names a client in place of the audience, the client's id counts."""
    services_by_audience: dict[tuple[str, str], list[ServiceSettings]] = {}
    for service in services:
        for issuer in service.auth.issuers if service.auth.mode != "off" else ():
            for audience in issuer_policy(issuer, service.resource, extra_audiences=True, implies={}).audiences:
                services_by_audience.setdefault((issuer.issuer, audience), []).append(service)
    for (name, audience), sharers in sorted(services_by_audience.items()):
        if len(sharers) > 1 and not all(service.auth.shared_audience for service in sharers):
            yield (
                f"{sharers[0].knob('auth.issuers')}: a token of {name} for {audience} would be accepted by the "
                f"services {', '.join(service.name for service in sharers)}; give each service its own audiences (or "
                "clients), or set auth.shared_audience: true in each (or at the top level) if a caller of one may "
                "call the others too"
            )
