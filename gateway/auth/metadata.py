"""Read issuers' metadata (RFC 8414); build that of this resource (RFC 9728), and the header that leads there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from gateway import jsonrpc
from gateway.auth.addresses import check_address
from gateway.auth.dpop import ALGORITHMS
from gateway.errors import Challenged, InsufficientScope
from gateway.settings import ResourceSettings
from gateway.settings.auth import SCOPE

PREFIX: Final = "/.well-known/oauth-protected-resource"
ANOTHER_ISSUER: Final = "its issuer is not the configured one, character for character but a slash at the end"
_MAX_SCOPES: Final = 4096  # characters: clients and proxies refuse long headers


@dataclass(frozen=True, slots=True)
class IssuerMetadata:
    """Hold the members of an issuer's metadata that the gateway uses; None is absent. ``issuer`` is as it has it."""

    issuer: str
    jwks_uri: str | None = None
    token_endpoint: str | None = None
    introspection_endpoint: str | None = None


def metadata_urls(issuer: str) -> tuple[str, ...]:
    """Return where an issuer's metadata may be, in the order to try (RFC 8414 §3, OpenID Connect Discovery §4)."""
    parts = urlsplit(issuer)
    path, openid = parts.path.rstrip("/"), "/.well-known/openid-configuration"
    paths = (f"/.well-known/oauth-authorization-server{path}", f"{openid}{path}", f"{path}{openid}")
    return tuple(urlunsplit((parts.scheme, parts.netloc, one, "", "")) for one in dict.fromkeys(paths))


def parse_issuer_metadata(document: Any, issuer: str) -> IssuerMetadata:
    """Return the metadata. Raises :class:`ValueError`: not metadata, another issuer (RFC 8414 §3.3), unsafe address. A
    slash at the end may be there or not: Drupal's tokens have ``https://site``, and its metadata ``https://site/``."""
    if not isinstance(document, Mapping):
        raise ValueError("not a JSON object")  # noqa: TRY004, one kind of failure for callers
    named = document.get("issuer")
    if not isinstance(named, str) or named.removesuffix("/") != issuer.removesuffix("/"):
        raise ValueError(ANOTHER_ISSUER)
    found: dict[str, str] = {}
    for name in ("jwks_uri", "token_endpoint", "introspection_endpoint"):
        value = document.get(name)
        if value is not None:
            check_address(value, issuer, name)
            found[name] = value
    return IssuerMetadata(named, **found)


@dataclass(frozen=True)
class ResourceMetadata:
    """Make the metadata of this resource (RFC 9728 §2), nothing of which comes from a request. ``name`` is for people,
    ``scopes`` are those that a client may request. A client compares the names of the issuers with their own metadata,
    character for character."""

    settings: ResourceSettings
    name: str
    issuers: Callable[[], list[str]]
    scopes: Callable[[], tuple[str, ...]]

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Return where the document is served. The first path is that of its URL."""
        mount = self.settings.mount
        # A proxy in front may strip the path of public_url, so the document is served without that path too. The
        # well-known path alone is for a gateway with one service; with several it would be ambiguous.
        paths = [f"{PREFIX}{urlsplit(self.settings.resource).path}", f"{PREFIX}{mount}/mcp"]
        return tuple(dict.fromkeys(paths if mount else [*paths, PREFIX]))

    @cached_property
    def url(self) -> str:
        """Return the document's URL, as challenges name it."""
        return urlsplit(self.settings.resource)._replace(path=self.paths[0]).geturl()

    def body(self) -> bytes:
        """Return the document."""
        auth, website = self.settings.auth, self.settings.mcp.server.about.website_url
        document: dict[str, Any] = {"resource": self.settings.resource, "authorization_servers": self.issuers()}
        document |= {"bearer_methods_supported": ["header"], "resource_name": self.name}
        if website:
            document["resource_documentation"] = website
        if auth.dpop != "off":
            document["dpop_signing_alg_values_supported"] = ALGORITHMS
            document["dpop_bound_access_tokens_required"] = auth.dpop == "require"
        if scopes := self.scopes():
            document["scopes_supported"] = scopes
        return jsonrpc.encode(document)


def www_authenticate(error: Challenged, metadata_url: str | None, scheme: str = "Bearer") -> str:
    """Return the ``WWW-Authenticate`` header (RFC 6750 §3, RFC 9728 §5.1, RFC 9449 §7.1). The error may ask for another
    ``scheme``. All values are ours, configured, or scope tokens (RFC 6749 §3.3): no stranger can inject a header."""
    if error.scheme != "Bearer":
        scheme = error.scheme
    parameters: list[tuple[str, str]] = []
    if error.error is not None:
        description = "The token lacks a scope" if isinstance(error, InsufficientScope) else error.message
        parameters += [("error", error.error), ("error_description", description)]
    scopes = " ".join(scope for scope in error.scopes if SCOPE.fullmatch(scope))
    if scopes and len(scopes) <= _MAX_SCOPES:
        parameters.append(("scope", scopes))
    if metadata_url is not None:
        parameters.append(("resource_metadata", metadata_url))
    if scheme == "DPoP":
        parameters.append(("algs", " ".join(ALGORITHMS)))
    return (f"{scheme} " + ", ".join(f'{name}="{value}"' for name, value in parameters)).rstrip()
