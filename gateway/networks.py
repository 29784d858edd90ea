"""Tell networks and trusted proxies from their addresses."""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache


@lru_cache(4096)
def network_of(address: str) -> str:
    """Return the network of one caller: an IPv4 address, or an IPv6 /64, whose addresses one caller can all use."""
    parsed = _parsed(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return address if parsed is None else str(parsed)


class AddressReader:
    """Find the caller's address behind trusted reverse proxies."""

    def __init__(self, trusted_proxies: Sequence[str]) -> None:
        self.trusted = [ipaddress.ip_network(proxy) for proxy in trusted_proxies]

    def caller_address(self, peer: str, forwarded_for: Sequence[str]) -> str:
        """Return ``peer``; where it is a trusted proxy, the rightmost ``X-Forwarded-For`` address that is not."""
        if not self.trusts(peer):
            return peer
        hops = [hop.strip() for line in forwarded_for for hop in line.split(",")]
        for hop in reversed(hops):
            if _parsed(hop) is None:
                return peer  # a client may have written this and all to its left
            if not self.trusts(hop):
                return hop
            peer = hop
        return peer

    def trusts(self, address: str) -> bool:
        """Return whether an address is a trusted proxy's."""
        parsed = _parsed(address)
        return parsed is not None and any(parsed in network for network in self.trusted)


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address, of an IPv4 address in an IPv6 one the former; None for what is no address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed
