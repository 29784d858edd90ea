"""Tell networks and trusted proxies from their addresses."""

import ipaddress
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import structlog

from gateway.text import excerpt

_WITH_PORT: Final = re.compile(r"\[([^\]]*)\](?::[0-9]+)?|([^:]*):[0-9]+")
"""An address as some proxies write it, with the port of the connection."""
_SHOWN: Final = 80
_REMEDY: Final = "let the proxy write addresses: all its callers share the limits of one"

log = structlog.get_logger()


@lru_cache(4096)
def network_of(address: str) -> str:
    """Return the network of one caller: an IPv4 address, or an IPv6 /64, whose addresses one caller can all use."""
    parsed = _parsed(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return address if parsed is None else str(parsed)


@lru_cache(4096)
def site_of(address: str) -> str:
    """Return the site of one caller: an IPv4 address, or an IPv6 /48, of which one caller may have all 65,536 networks
    (RFC 6177)."""
    parsed = _parsed(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, 48), strict=False))
    return network_of(address)


class AddressReader:
    """Find the caller's address behind trusted reverse proxies."""

    def __init__(self, trusted_proxies: Sequence[str]) -> None:
        self.trusted = [ipaddress.ip_network(proxy) for proxy in trusted_proxies]
        self._has_told = False

    def caller_address(self, peer: str, forwarded_for: Sequence[str]) -> str:
        """Return ``peer``; where it is a trusted proxy, the rightmost ``X-Forwarded-For`` address that is not. An
        address may have a port, which is left out."""
        if not self.trusts(peer):
            return peer
        hops = [hop.strip() for line in forwarded_for for hop in line.split(",")]
        for hop in map(_without_port, reversed(hops)):
            if _parsed(hop) is None:
                self._tell(peer, hop)
                return peer  # a client may have written this and all to its left
            if not self.trusts(hop):
                return hop
            peer = hop
        return peer

    def trusts(self, address: str) -> bool:
        """Return whether an address is a trusted proxy's."""
        parsed = _parsed(address)
        return parsed is not None and any(parsed in network for network in self.trusted)

    def _tell(self, peer: str, hop: str) -> None:
        """Log the first of what is no address: if a proxy writes so, all its callers are one."""
        if hop and not self._has_told:
            self._has_told = True
            log.warning("X-Forwarded-For has no address", proxy=peer, value=excerpt(hop, _SHOWN), remedy=_REMEDY)


def _without_port(hop: str) -> str:
    found = _WITH_PORT.fullmatch(hop)
    return hop if found is None else found[1] or found[2] or ""


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address, of an IPv4 address in an IPv6 one the former; None for what is no address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed
