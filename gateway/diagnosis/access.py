"""Find out why callers are not let in: what issuers publish, and what a token says. No token is verified here."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from typing import Any, Final, Self

from gateway.auth import compact
from gateway.auth.access import Access
from gateway.auth.api_keys import is_key
from gateway.auth.claims import IssuerPolicy, check_token_kind, issuer_policy
from gateway.auth.compact import CompactToken, InvalidToken
from gateway.auth.issuers import IntrospectionVerifier, Issuers
from gateway.auth.jwks import FetchFailed
from gateway.auth.keys import KeySet
from gateway.auth.metadata import ANOTHER_ISSUER
from gateway.auth.presets import PRESETS
from gateway.catalog.curation import list_some
from gateway.jsonrpc import member_at
from gateway.model import Principal
from gateway.settings import ResourceSettings
from gateway.text import excerpt

_SHOWN: Final = 200
_WIDTH: Final = 8
_NEXT: Final = {
    "in the future": "Compare the clocks of the issuer and of this machine.",
    "algorithm": "Have the issuer sign with a pair of keys: RS256, ES256, not HS256 or none.",
    "no key of its issuer": "Get a new token: this one's key is not among those that its issuer publishes now.",
    "signature": "Copy all of the token; if it is whole, get a new one from its issuer.",
    "issuer's clients": "Get a token of one of these clients, or add its client to {}.clients.",
    "bound to a key": "Set auth.dpop: accept, or get a token that is not bound (no cnf).",
}
"""Remedies, by words of the refusal."""
_UNREAD: Final = {
    "opaque": "It is opaque: set {}.introspection to ask its issuer, or have the issuer make JWTs.",
    "encrypted": "It is encrypted: have the issuer make tokens that are signed alone.",
    "unsigned": "It is not signed: have the issuer sign it.",
    "half": "It is not whole: copy its three parts.",
}
_ID_TOKEN: Final = {"nonce", "at_hash", "c_hash"}
_UNREACHABLE: Final = ("HTTP 5", "connection refused", "no answer", "cannot be resolved")


@dataclass(frozen=True, slots=True)
class IssuerFinding:
    """Hold an issuer's ``keys``, or its ``endpoint`` for introspection. With a ``fault`` its callers cannot get in."""

    keys: KeySet | None = None
    endpoint: str = ""
    fault: str = ""


async def check_issuer(settings: ResourceSettings, policy: IssuerPolicy, issuers: Issuers) -> IssuerFinding:
    """Return what the issuer of ``policy`` publishes now."""
    issuer, keys, found = policy.issuer, issuers.keys[policy.issuer.issuer], None
    try:
        if issuer.introspects:
            return IssuerFinding(endpoint=await IntrospectionVerifier(policy, keys).endpoint())
        await keys.refresh()
        found = keys.keys
        if found is not None:
            await keys.get_metadata()
        fault = keys.failure
    except FetchFailed as error:
        fault = str(error)
        if found is not None:
            fault = f"{fault}; clients that log in refuse it" if ANOTHER_ISSUER in fault else ""
    return IssuerFinding(found, fault=_issuer_fault(settings, policy, fault) if fault else "")


def _issuer_fault(settings: ResourceSettings, policy: IssuerPolicy, text: str) -> str:
    """Return what is wrong with an issuer, and what to do about it."""
    knob = settings.knob(f"auth.issuers.{settings.auth.issuers.index(policy.issuer)}")
    if any(words in text for words in _UNREACHABLE):
        step = f"start the issuer or look into its log, or correct {knob}"
    elif policy.issuer.metadata.jwks_uri is not None:
        step = f"correct {knob}.metadata.jwks_uri, the address of its keys"
    else:
        step = f"{knob}.issuer must be the iss of its tokens: no address of keys, metadata or a login page"
    return f"{policy.issuer.issuer}: {text}; {step}"


def challenge_warning(settings: ResourceSettings, access: Access) -> str:
    """Return for which clients the scopes that a client without a token learns of are not enough, "" for none."""
    first = access.challenged_scopes()
    later = [scope for scope in access.supported_scopes if scope not in first]
    if not (first and later):  # where none is asked for, clients ask for all
        return ""
    return (
        f"{settings.knob('auth.scopes.challenge')} is least: clients first ask for {' '.join(first)}, not for "
        f"{list_some(later)}; where an issuer holds a client to the scopes that it registered with, clients that "
        "register themselves need all"
    )


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one thing that a token says, "-" where it does not, and what is wanted, "" where anything will do."""

    name: str
    has: str
    wanted: str


@dataclass(frozen=True, slots=True)
class TokenReport:
    """Hold what a token says: no ``rows`` where it is opaque. ``refusal`` is why it is not accepted, ``next`` what to
    do then, ``preset`` one that would accept it, or ""."""

    rows: tuple[Row, ...]
    refusal: str = ""
    preset: str = ""
    next: str = ""

    @classmethod
    def of_key(cls, principal: Principal) -> Self:
        """Return what the key file says of the key of a principal."""
        expires = _time(principal.expires) if principal.expires < inf else "-"
        scopes = " ".join(sorted(principal.scopes)) or "-"
        said = {"name": principal.subject, "SHA-256": f"{principal.client}…", "scopes": scopes, "expires": expires}
        return cls(tuple(Row(name, has, "") for name, has in said.items()))

    @classmethod
    def of(cls, settings: ResourceSettings, given: Sequence[IssuerPolicy], raw: str, refusal: str = "") -> Self:
        """Return what a token says, and what to do where it is refused."""
        if is_key(raw):
            knob = settings.knob("auth.keys.file")
            step = f"Use a key of {knob}: `keys list` shows them, `keys add` makes one."
            return cls((Row("kind", "API key", ""),), refusal, next=step if refusal else "")
        try:
            token = compact.parse_compact(raw)
            typ = token.typ
        except InvalidToken:
            form = {4: "encrypted", 2: "unsigned" if raw.endswith(".") else "half"}.get(raw.count("."), "half")
            words = _UNREAD[form if raw.startswith("eyJ") else "opaque"] if refusal else ""
            return cls((), refusal, next=words.format(settings.knob("auth.issuers.0")))
        policies = {policy.issuer.issuer: policy for policy in given}
        issuer = token.claims.get("iss")
        named = policies.get(issuer) if isinstance(issuer, str) else None
        policy = named or (given[0] if len(policies) == 1 else None)
        rows = tuple(_rows(settings, policy, policies, token))
        if not refusal:
            return cls(rows)
        if policy is None or (named is None and isinstance(issuer, str)):
            add = f"Add the issuer to {settings.knob('auth.issuers')}, or use a token of {' or '.join(policies)}."
            return cls(rows, refusal, next=add)
        knob = settings.knob(f"auth.issuers.{given.index(policy)}")
        if typ in policy.token_types:
            return cls(rows, refusal, next=_next(policy, token.claims, refusal, knob))
        return cls(rows, refusal, *_preset_to_set(settings, policy, token, f"{knob}.preset"))

    def without_what_is_wanted(self) -> Self:
        """Return the report for somebody who may be a stranger."""
        rows = tuple(replace(row, wanted="") for row in self.rows)
        return replace(self, rows=rows, preset="", next="Ask who runs this gateway: `check --token-file` says why.")

    def lines(self) -> Iterator[str]:
        """Yield a line for each row, and the preset that fits."""
        if not self.rows and not self.next:
            yield "  the token is opaque: only its issuer can read it"
        width = max((len(row.has) for row in self.rows), default=0)
        for row in self.rows:
            wanted = f"wanted: {row.wanted}" if row.wanted else ""
            yield f"  {row.name:<{_WIDTH}}  {row.has:<{width}}  {wanted}".rstrip()
        if self.next:
            yield f"next         {self.next}"


def _rows(
    settings: ResourceSettings, policy: IssuerPolicy | None, issuers: Iterable[str], token: CompactToken
) -> Iterator[Row]:
    claims = token.claims
    scopes = settings.auth.scopes
    yield Row("iss", _text(claims.get("iss")), " or ".join(issuers))
    yield Row("aud", _text(claims.get("aud")), "" if policy is None else " or ".join(sorted(policy.audiences)))
    types = () if policy is None else policy.token_types
    yield Row("typ", _text(token.header.get("typ")), " or ".join("absent" if name is None else name for name in types))
    yield Row("exp", _time(claims.get("exp")), "after now")
    granted = () if policy is None else (member_at(claims, path) for path in policy.scope_claims)
    has, wanted = _text(next(filter(None, granted), None)), dict.fromkeys((*scopes.list_, *scopes.call))
    yield Row("scopes", has, " ".join(wanted))


def _next(policy: IssuerPolicy, claims: Mapping[str, Any], refusal: str, knob: str) -> str:
    """Return what to do about a token of the right kind that is refused; "" where its claims do not tell."""
    expires = claims.get("exp")
    if isinstance(expires, int | float) and expires < time.time():
        return "Get a new token."
    audiences = claims.get("aud")
    if not policy.audiences.intersection(audiences if isinstance(audiences, list) else [audiences]):
        wanted = f"Get a token whose aud is {' or '.join(sorted(policy.audiences))}."
        return f"{wanted} If the aud of this one is right, correct server.public_url or {knob}.audiences."
    return next((remedy for words, remedy in _NEXT.items() if words in refusal), "").format(knob)


def _text(value: Any) -> str:
    texts = value if isinstance(value, list) else [value]
    return excerpt(" ".join(str(text) for text in texts if text is not None), _SHOWN) or "-"


def _time(value: Any) -> str:
    """Return a NumericDate (RFC 7519 §2) as a date, and whether it is over."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        return _text(value)
    over = ", which is over" if value < time.time() else ""
    return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%dT%H:%M:%SZ}{over}"


def _preset_to_set(settings: ResourceSettings, policy: IssuerPolicy, token: CompactToken, knob: str) -> tuple[str, str]:
    """Return the preset that accepts this kind of token, or "", and what to do about the kind."""
    preset = _fitting_preset(settings, policy, token.typ, token.claims)
    types = " or ".join(map(str, policy.token_types))
    if preset:
        return preset, f"Set {knob}: {preset}"
    if _ID_TOKEN & token.claims.keys():
        return "", f"This is an ID token, for the client: send the access token, typ {types}."
    return "", f"Get a token whose typ is {types}, or set {knob} if docs/issuers has a page about its issuer."


def _fitting_preset(
    settings: ResourceSettings, policy: IssuerPolicy, typ: str | None, claims: Mapping[str, Any]
) -> str:
    """Return the preset that accepts this kind of token, or "". Of several, it is the one that has fixed values for
    more claims, or whose name the issuer has, or that finds the client in more claims."""
    fitting = []
    for order, (name, preset) in enumerate(PRESETS.items()):
        if preset.opaque or not (typ != "jwt" or preset.fixed_claims or name in policy.issuer.issuer):
            continue  # many issuers that are none of ours make tokens of the type JWT, too
        issuer = policy.issuer.model_copy(update={"preset": name})
        other = issuer_policy(issuer, settings.resource, extra_audiences=True, implies={})
        try:
            check_token_kind(other, typ, claims)
        except InvalidToken:
            continue
        if all(claims.get(claim) is not None for claim in other.required_claims):
            clients = sum(claim in claims for claim in preset.client_claims)
            fitting.append((len(preset.fixed_claims), name in issuer.issuer, clients, -order, name))
    return max(fitting)[-1] if fitting else ""
