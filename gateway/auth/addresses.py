"""Decide which addresses in an issuer's documents, which are not trusted, the gateway may connect to.

Forms and literal IP addresses are checked when the document is read. A host name is checked after it is resolved, and
the connection goes to exactly the address that was checked.
"""

import ipaddress
import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from gateway.http_client.resolver import Reach
from gateway.settings import Issuer, is_loopback

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAME: Final = re.compile(r"[a-z0-9._-]+")
# Resolvers take 127.1, 0x7f000001 and 2130706433 for addresses, as browsers do (WHATWG URL, "ends in a number").
_NUMBER_LAST: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
# IPv6 that ends in an IPv4 address: compatible and mapped (RFC 4291 §2.5.5), translated (RFC 2765), NAT64 (RFC 6052).
_ENDING_IN_IPV4: Final = tuple(
    map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96"))
)
# Where AWS, Google, Oracle, Scaleway, Alibaba and Azure tell a machine its credentials, beside link-local addresses.
_OF_CLOUDS: Final = tuple(map(ipaddress.ip_network, (
    "fd00:ec2::/32", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "192.0.0.192", "fd00:42::42", "100.100.100.200",
    "168.63.129.16",
)))  # fmt: skip
_ISATAP: Final = b"\0\0\x5e\xfe", b"\2\0\x5e\xfe"  # what stands before the IPv4 address (RFC 5214 §6.1)
_LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")


def check_address(url: Any, issuer: str, name: str) -> None:
    """Raise :class:`ValueError` unless the member ``name`` is an https URL, or http where it and the issuer are on
    loopback, and an IP address in it may be connected to."""
    try:
        parts = urlsplit(url)
        host, _ = (parts.hostname or "").rstrip("."), parts.port
    except (ValueError, AttributeError, TypeError):
        raise ValueError(f"{name} is not a URL") from None
    local = _on_loopback(issuer)
    if parts.scheme != "https" and not (parts.scheme == "http" and local and is_loopback(host)):
        raise ValueError(f"{name} is not https")
    # URL parsers differ on blanks, backslashes and characters beyond ASCII; a URI has none of them (RFC 3986 §2).
    if parts.username is not None or not re.fullmatch(r"[!-\[\]-~]+", url):
        raise ValueError(f"{name} is not a plain URL")
    if ":" in host or _NUMBER_LAST.fullmatch(host):
        reason = address_refusal(host, local=local)
    elif host == "localhost" and not local:
        reason = "points at this machine"
    else:
        reason = None if _NAME.fullmatch(host) else "is not a plain URL"
    if reason is not None:
        raise ValueError(f"{name} {reason}")


def address_refusal(address: str, *, local: bool) -> str | None:
    """Return why the gateway does not connect to an IP address, or to one embedded in it; ``local`` allows loopback."""
    try:
        literal = ipaddress.ip_address(address)
    except ValueError:
        return "has an address that is not in its usual form"
    for ip in (literal, *_embedded_ipv4(literal)):
        if ip.is_loopback and not local:
            return "points at this machine"
        # Link-local is where clouds serve a machine's own credentials (169.254.169.254).
        if ip.is_link_local or ip.is_unspecified or ip.is_multicast:
            return "points at a link-local, unspecified or multicast address"
        if any(ip in network for network in _OF_CLOUDS):
            return "points at a cloud's metadata service"
    return None


def reach_of_issuer(issuer: Issuer, *configured: str | None) -> Reach:
    """Return where connections to an issuer may go: to the operator's origins, else to checked addresses."""
    known = issuer.metadata
    urls = (issuer.issuer, known.jwks_uri, known.introspection_endpoint, *configured)
    refuses = partial(address_refusal, local=_on_loopback(issuer.issuer))
    return Reach(refuses, frozenset(url for url in urls if url is not None))


def _on_loopback(issuer: str) -> bool:
    return is_loopback(urlsplit(issuer).hostname or "")


def _embedded_ipv4(address: Address) -> Iterator[Address]:
    """Yield the IPv4 addresses within an IPv6 address, also of 6to4 (RFC 3056) and of a Teredo client (RFC 4380)."""
    if isinstance(address, ipaddress.IPv4Address):
        return
    whole = address.packed
    if any(address in network for network in _ENDING_IN_IPV4) or whole[8:12] in _ISATAP:
        yield ipaddress.IPv4Address(whole[12:])
    if address in _LOCAL_NAT64:
        # It follows a prefix of 48, 56, 64 or 96 bits, which only the network knows, without byte 8 (RFC 6052 §2.2).
        parts = whole[6:8] + whole[9:11], whole[7:8] + whole[9:12], whole[9:13], whole[12:]
        yield from (ipaddress.IPv4Address(part) for part in parts if any(part))
    if address.sixtofour:
        yield address.sixtofour
    if address.teredo:
        yield address.teredo[1]
