"""Keep what a service knows of its issuers: their keys, HTTP clients to reach them, and verifiers of their tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from gateway.auth.addresses import reach_of_issuer
from gateway.auth.claims import IssuerPolicy
from gateway.auth.introspection import GOOGLE, IntrospectionVerifier
from gateway.auth.jwks import FetchFailed, IssuerKeys
from gateway.auth.verifier import SignatureVerifier, Verifiers
from gateway.concurrency.background import Background
from gateway.http_client.session import Outbound
from gateway.http_client.tls import TlsFiles
from gateway.settings import Credentials, Issuer


class Issuers:
    """Hold the keys and the HTTP client of each issuer, by its identifier. With ``auth.mode: off`` there are no keys,
    and one client for the configured token endpoint. A service and the one that replaces it in a reload may share this.
    ``token_endpoint`` is the configured one, or None. Raises :class:`OSError` where a CA file cannot be used."""

    def __init__(self, issuers: Sequence[Issuer], token_endpoint: str | None) -> None:
        self.outbounds: dict[str, Outbound] = {}
        for issuer in issuers:
            tls = TlsFiles(issuer.ca_file, ca_knob="auth.issuers.ca_file")
            reach = reach_of_issuer(issuer, GOOGLE, token_endpoint)
            self.outbounds[issuer.issuer] = Outbound(connections=20, tls=tls, reach=reach)
        self.keys = {issuer.issuer: IssuerKeys(issuer, self.outbounds[issuer.issuer]) for issuer in issuers}
        self.background = Background()
        if not issuers:
            self.outbounds[""] = Outbound(connections=20)

    def __repr__(self) -> str:
        return f"<Issuers {', '.join(self.keys) or 'none'}: {self.unready() or 'ready'}>"

    def start(self) -> None:
        """Fetch keys and keep them fresh, once for all services that share them."""
        if not any(self.background.describe()):
            for keys in self._signing():
                self.background.start(f"keys of {keys.issuer.issuer}", keys.refresh_forever)

    def unready(self) -> str | None:
        """Return why tokens cannot be verified, or None. One issuer of several may lack keys, once tried."""
        missing = [keys for keys in self._signing() if keys.keys is None]
        untried = not all(keys.first_attempt_over.is_set() for keys in missing)
        if missing and (untried or len(missing) == len(self.keys)):
            return f"no keys of {missing[0].issuer.issuer}"
        return None

    def verifier(self, policies: Iterable[IssuerPolicy]) -> Verifiers:
        """Return the verifier of tokens by these policies, of which each issuer has one."""
        pairs = [(policy, self.keys[policy.issuer.issuer]) for policy in policies]
        signed = [pair for pair in pairs if not pair[0].issuer.introspects]
        # At most one, which the settings check: an opaque token does not say whose it is.
        asked = [pair for pair in pairs if pair[0].issuer.introspects]
        introspection = IntrospectionVerifier(*asked[0], self.outbounds[asked[0][0].issuer.issuer]) if asked else None
        names = frozenset(policy.issuer.issuer for policy, _ in asked)
        return Verifiers(SignatureVerifier(signed) if signed else None, introspection, names)

    def published(self) -> list[str]:
        """Return the issuers' names, each as its own metadata has it where these were read."""
        return [keys.published for keys in self.keys.values()]

    def token_endpoint(self, settings: Credentials) -> Callable[[], Awaitable[str]]:
        """Return a function for the URL of the token endpoint: the configured one, else the first issuer's."""

        async def endpoint_url() -> str:
            if settings.token_endpoint is not None:
                return settings.token_endpoint
            if not self.keys:
                raise FetchFailed("with auth.mode: off no issuer names a token endpoint; set token_endpoint")
            endpoint = (await next(iter(self.keys.values())).get_metadata()).token_endpoint
            if endpoint is None:
                raise FetchFailed("the issuer's metadata have no token_endpoint; set token_endpoint")
            return endpoint

        return endpoint_url

    def outbound(self) -> Outbound:
        """Return the HTTP client of the first issuer."""
        return next(iter(self.outbounds.values()))

    async def close(self) -> None:
        await self.background.stop()
        for outbound in self.outbounds.values():
            await outbound.close()

    def _signing(self) -> list[IssuerKeys]:
        """Return the keys of the issuers whose tokens are verified by signature."""
        return [keys for keys in self.keys.values() if not keys.issuer.introspects]
