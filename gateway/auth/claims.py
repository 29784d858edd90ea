"""Check the claims of a verified JWT or an introspection answer: issuer, audience, time (RFC 9068 §4, RFC 8725 §3)."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

from gateway.auth.compact import InvalidToken
from gateway.auth.presets import Preset, preset_of
from gateway.jsonrpc import member_at
from gateway.model import AccessToken, Principal
from gateway.settings import Issuer, ResourceSettings

MAX_NAME_BYTES: Final = 255
LEEWAY: Final = 30.0
"""Seconds by which clocks may differ."""
MAX_LIFETIME: Final = 86400.0
"""Seconds from iat to exp that a token may live. The issuers of the presets stay below it by default."""
MAX_TOLD: Final = 1024
"""Bytes of claims that a principal keeps for one service."""
_AS_IT_IS: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


@dataclass(frozen=True, slots=True)
class IssuerPolicy:
    """Hold what is accepted from one issuer. ``audiences`` mean this service; ``scope_prefix`` stands before the scopes
    that clients request; with ``extra_audiences`` a token may name others too."""

    issuer: Issuer
    preset: Preset
    audiences: frozenset[str]
    required_claims: tuple[str, ...]
    token_types: tuple[str | None, ...]
    scope_claims: tuple[tuple[str, ...], ...]
    scope_prefix: str
    extra_audiences: bool
    implied_scopes: Mapping[str, frozenset[str]]
    told_claims: tuple[tuple[str, ...], ...] = ()
    """Claims that each service is told, with dots for nested ones. Principals keep no others."""


def issuer_policy(
    issuer: Issuer,
    resource: str,
    *,
    extra_audiences: bool,
    implies: Mapping[str, Iterable[str]],
    told_claims: tuple[tuple[str, ...], ...] = (),
) -> IssuerPolicy:
    """Return the policy for an issuer: its preset, with the settings of the operator applied."""
    preset = preset_of(issuer)
    audiences = issuer.audiences or ((resource, *issuer.clients) if preset.audience_is_client else (resource,))
    required = preset.required_claims
    if issuer.introspects and not preset.opaque:
        required = ("exp",)  # RFC 7662 §2.2 requires only active; a token without an end is refused
    return IssuerPolicy(
        issuer=issuer,
        preset=preset,
        audiences=frozenset(audiences),
        required_claims=required,
        token_types=tuple(typ.lower().removeprefix("application/") for typ in issuer.token_types) or preset.token_types,
        scope_claims=tuple(tuple(claim.split(".")) for claim in issuer.scope_claims or preset.scope_claims),
        scope_prefix=preset.scope_prefix_of(issuer, resource),
        extra_audiences=extra_audiences,
        implied_scopes=scope_closure(implies),
        told_claims=told_claims,
    )


def scope_closure(implies: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """Return for each scope all that it implies, itself included, directly or through other scopes."""
    closed: dict[str, frozenset[str]] = {}
    for scope in implies:
        reached = {scope}
        waiting = [scope]
        while waiting:
            narrower = set(implies.get(waiting.pop(), ())) - reached
            reached |= narrower
            waiting += narrower
        closed[scope] = frozenset(reached)
    return closed


def check_token_kind(policy: IssuerPolicy, typ: str | None, claims: Mapping[str, Any]) -> None:
    """Check that this is an access token and no other kind of JWT (RFC 8725 §3.11). Raises :class:`InvalidToken`."""
    if typ not in policy.token_types:
        raise InvalidToken(f"typ is not one of {', '.join(str(known) for known in policy.token_types)}")
    if typ == "at+jwt":
        return
    preset = policy.preset
    for name in preset.forbidden_claims:
        if name in claims:
            raise InvalidToken(f"it has {name}, which only id tokens have")
    for names in preset.alternative_claims:
        if all(claims.get(name) is None for name in names):
            raise InvalidToken(f"it has none of {', '.join(names)}")
    check_fixed_claims(policy, claims)


def check_fixed_claims(policy: IssuerPolicy, claims: Mapping[str, Any]) -> None:
    """Check the claims that have known values in this issuer's access tokens. Raises :class:`InvalidToken`."""
    for name, values in policy.preset.fixed_claims.items():
        if claims.get(name) not in values:
            raise InvalidToken(f"{name} is not {' or '.join(map(str, values))}")


def principal_of(policy: IssuerPolicy, claims: Mapping[str, Any], raw: str, now: float) -> Principal:
    """Return the principal that the claims describe; ``now`` is wall-clock seconds. Raises :class:`InvalidToken`."""
    for name in policy.required_claims:
        if claims.get(name) is None:
            raise InvalidToken(f"{name} is missing")
    if "jti" in policy.required_claims and (not isinstance(claims["jti"], str) or not claims["jti"]):
        raise InvalidToken("jti is not a non-empty string")
    issuer = claims.get("iss", policy.issuer.issuer)
    if issuer != policy.issuer.issuer:
        raise InvalidToken("iss is another issuer than the one that verified it")
    expires = _check_times(policy, claims, now)
    client = _client(policy, claims)
    _check_audience(policy, claims, client)
    # An introspection answer may lack sub (RFC 7662 §2.2). The prefix keeps a client apart from users' names.
    default = f"client:{client}" if policy.issuer.introspects and client else None
    subject = _identifier(claims.get("sub", default), "sub")
    if policy.issuer.clients and client not in policy.issuer.clients:
        raise InvalidToken("its client is not one of the issuer's clients")
    scopes, told = _scopes(policy, claims), _told(policy, claims)
    return Principal(policy.issuer.issuer, subject, client, scopes, expires, AccessToken(raw), claims=told)


def _check_times(policy: IssuerPolicy, claims: Mapping[str, Any], now: float) -> float:
    expires = _number(claims, "exp")
    if expires is None:
        raise InvalidToken("exp is missing")
    if now >= expires + LEEWAY:
        raise InvalidToken("expired", expired=True)
    for name in ("nbf", "iat"):
        time = _number(claims, name)
        if time is not None and time > now + LEEWAY:
            raise InvalidToken(f"{name} is in the future")
    issued = _number(claims, "iat")
    if expires - (now if issued is None else issued) > MAX_LIFETIME:
        raise InvalidToken(f"lives longer than {MAX_LIFETIME / 3600:g} hours")
    return expires


def _number(claims: Mapping[str, Any], name: str) -> float | None:
    """Return a NumericDate (RFC 7519 §2) in seconds, None where it is absent."""
    value = claims.get(name)
    if value is None and name not in claims:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        raise InvalidToken(f"{name} is not a NumericDate")
    return float(value)


def _check_audience(policy: IssuerPolicy, claims: Mapping[str, Any], client: str) -> None:
    preset = policy.preset
    if "aud" in claims:
        audiences = [claims["aud"]] if isinstance(claims["aud"], str) else claims["aud"]
        if not audiences or not isinstance(audiences, list) or not all(isinstance(one, str) for one in audiences):
            raise InvalidToken("aud is neither a string nor a list of strings")
    elif "aud" not in preset.required_claims or (policy.issuer.introspects and policy.issuer.clients):
        return  # principal_of checks the client instead
    else:
        raise InvalidToken("aud is missing")
    if not policy.audiences.intersection(audiences):
        raise InvalidToken("aud does not name this gateway")
    if not policy.extra_audiences:
        extra = set(audiences) - policy.audiences - preset.audiences_added_by(policy.issuer.issuer)
        if extra:
            raise InvalidToken("aud names others too, and the token would be forwarded to the backend")


def _client(policy: IssuerPolicy, claims: Mapping[str, Any]) -> str:
    for name in policy.preset.client_claims:
        value = claims.get(name)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]  # some issuers name the client in aud, which may be a list
        if value is not None:
            return _identifier(value, name)
    return ""


def _identifier(value: Any, claim: str) -> str:
    """Return an identifier: short and printable, since it becomes a key of caches and limits, and is logged."""
    if not isinstance(value, str) or not value or len(value.encode()) > MAX_NAME_BYTES:
        raise InvalidToken(f"{claim} is not a string of 1 to {MAX_NAME_BYTES} bytes")
    if not value.isascii() or not value.isprintable():
        for character in value:
            if unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Co", "Cn"):
                raise InvalidToken(f"{claim} has control characters")
    return value


def _told(policy: IssuerPolicy, claims: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the claims that services are told. One beyond :data:`MAX_TOLD` bytes for a service is as a missing one."""
    told = dict[str, str]()
    for names in policy.told_claims:
        room = MAX_TOLD
        for name in names:
            value = member_at(claims, name.split("."))
            parts = [header_text(part, ",") for part in (value if isinstance(value, list) else [value])]
            text = ",".join(parts)
            if all(parts) and 0 < len(text) <= room:
                told[name], room = text, room - len(text)
    return tuple(told.items())


def header_text(value: Any, separator: str = "") -> str:
    """Return a text or number as the value of a header, "" for anything else. What is no printable ASCII is in UTF-8
    and percent-encoded (RFC 3986 §2.1), as are "%", ``separator`` and a space at either end: no value becomes
    another."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        return ""
    text = quote(str(value), safe=_AS_IT_IS.replace(separator, "") if separator else _AS_IT_IS, errors="replace")
    text = f"%20{text[1:]}" if text.startswith(" ") else text
    return f"{text[:-1]}%20" if text.endswith(" ") else text


def _scopes(policy: IssuerPolicy, claims: Mapping[str, Any]) -> frozenset[str]:
    found: set[str] = set()
    for path in policy.scope_claims:
        value = member_at(claims, path)
        if isinstance(value, str):
            found.update(value.split(" "))
        elif isinstance(value, list):
            found.update(item for item in value if isinstance(item, str))
        found.discard("")
        if found and not policy.issuer.scope_claims:
            break  # the next claim of a preset is about the user, not about what was granted to the client
    if policy.scope_prefix:
        found = {scope.removeprefix(policy.scope_prefix) for scope in found}
    for scope in tuple(found):
        found |= policy.implied_scopes.get(scope, frozenset())
    return _intern(frozenset(found))


@lru_cache(1000)
def _intern(scopes: frozenset[str]) -> frozenset[str]:
    """Return one object for equal scopes: thousands of cached tokens grant the same ones."""
    return scopes


def shared_audience_faults(services: Iterable[ResourceSettings]) -> Iterator[str]:
    """Yield a fault for each audience or client that services and groups share without ``auth.shared_audience`` in
    all."""
    services_by_audience: dict[tuple[str, str], list[ResourceSettings]] = {}
    for service in services:
        for issuer in service.auth.active_issuers:
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
