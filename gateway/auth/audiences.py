"""Whether a token for one service would be accepted by another: each is a protected resource of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gateway.auth.claims import issuer_policy
from gateway.settings import ServiceSettings


def shared_audience_faults(services: Iterable[ServiceSettings]) -> Iterator[str]:
    """Yield a fault for each audience of an issuer that several services accept, unless all of them say so. Where a
    client's id is what an issuer has in place of the audience, it is one."""
    accepting: dict[tuple[str, str], list[ServiceSettings]] = {}
    for service in services:
        for issuer in service.auth.issuers if service.auth.mode != "off" else ():
            for audience in issuer_policy(issuer, service.resource, extra_audiences=True, implies={}).audiences:
                accepting.setdefault((issuer.issuer, audience), []).append(service)
    for (name, audience), sharing in sorted(accepting.items()):
        if len(sharing) > 1 and not all(service.auth.shared_audience for service in sharing):
            yield (
                f"{sharing[0].knob('auth.issuers')}: a token of {name} for {audience} would be accepted by the "
                f"services {', '.join(service.name for service in sharing)}; give each audiences (or clients) of its "
                "own, or say auth.shared_audience: true in each (or at the top level), where whoever is let in to one "
                "may call the others"
            )
