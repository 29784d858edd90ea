"""Fetch a backend's listing in the configured dialect, or in the one that probing finds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from msgspec import structs

from gateway.backend.redaction import REDACTED
from gateway.backend.request_parts import RequestParts
from gateway.backend.source import ALWAYS, ONE, PLAIN, BackendSource
from gateway.http_client.transport import Transport
from gateway.listing.dialect import ListingSource, NoListing
from gateway.listing.probe import DIALECTS, PATIENCE, probe_dialects
from gateway.model import Caller, Listing, MessageForm, Method, QuarantinedMethod
from gateway.settings.backend import Backend
from gateway.text import secrets_in

MAX_LISTING: Final = 16 * 1024**2
"""Largest answer of a listing, in bytes, unless ``backend.max_response`` is larger."""


class ListingCredential(Protocol):
    """Provide what requests for a listing are sent with, and other parts than those that the backend refused."""

    async def request_parts(self, caller: Caller) -> RequestParts: ...

    async def renew(self, caller: Caller, refused: RequestParts) -> RequestParts | None: ...


class ListingReader:
    """Fetch listings of one backend. The dialect that probing found is kept until the backend stops speaking it, and so
    is the message form. ``transport_of`` returns the way for the listings of one caller, for "" those of all callers.
    ``secrets``, and those of ``credential``, are removed from the listing. ``dialect`` is what an earlier reader
    found, or "auto". ``progress`` is called with each dialect that probing tries. ``reserve`` is as for
    :class:`~gateway.backend.source.BackendSource`."""

    def __init__(
        self,
        transport_of: Callable[[str], Transport],
        settings: Backend,
        credential: ListingCredential,
        *,
        progress: Callable[[str], None] = lambda _: None,
        secrets: Sequence[str] = (),
        dialect: str = "auto",
        reserve: Callable[[int], bool] = lambda _: True,
    ) -> None:
        self._transport_of = transport_of
        self._settings = settings
        self._credential = credential
        self._progress = progress
        self._secrets = secrets
        self._reserve = reserve
        configured = settings.listing.dialect
        self.dialect: str = dialect if configured == "auto" else configured
        self._form = form_of(settings)

    def __repr__(self) -> str:
        return f"<ListingReader dialect={self.dialect} form={self._form}>"

    async def fetch_listing(self, caller: Caller) -> Listing:
        """Return the listing that the caller may see. Raise :class:`NoListing`, and what the credential raises.

        Where the backend refuses the credential, ask once more with another one, if there is one: a listing has no
        effects."""
        parts = await self._credential.request_parts(caller)
        try:
            return _quarantine_redacted(await self._read_listing(caller, parts))
        except NoListing as error:
            renewed = await self._credential.renew(caller, parts) if error.unauthorized else None
            if renewed is None:
                raise
        return _quarantine_redacted(await self._read_listing(caller, renewed))

    async def _read_listing(self, caller: Caller, parts: RequestParts) -> Listing:
        if self.dialect == "auto":
            return await self._probe(caller, parts)
        source = self._source(caller, parts, None)
        try:
            return await self._fetch_with_form(DIALECTS[self.dialect].fetch_listing, source)
        except NoListing as error:
            configured = self._settings.listing.dialect != "auto"
            # A backend that is down, or denies the listing, may still speak the dialect.
            if configured or error.unreachable or error.away or error.denied:
                raise
            return await self._probe(caller, parts)

    async def _probe(self, caller: Caller, parts: RequestParts) -> Listing:
        source = self._source(caller, parts, PATIENCE)
        listing = await self._fetch_with_form(lambda source: probe_dialects(source, self._progress), source)
        self.dialect = listing.dialect
        return listing

    async def _fetch_with_form(
        self, ask: Callable[[ListingSource], Awaitable[Listing]], source: BackendSource
    ) -> Listing:
        try:
            listing = await ask(source)
        except NoListing:
            self._form = form_of(self._settings)
            raise
        finally:
            source.close()
        self._form = source.form
        # Discovery compares the digest of the answers, so an unchanged listing is not built again.
        return replace(listing, form=source.form, digest=source.digest, size=source.size)

    def _source(self, caller: Caller, parts: RequestParts, patience: float | None) -> BackendSource:
        listing = self._settings.listing
        # A shared listing has one language: its view names none. The first caller must not choose it for all.
        if language := listing.language or caller.view.language:
            parts = structs.replace(parts, headers={**parts.headers, "Accept-Language": language})
        return BackendSource(
            self._transport_of("" if caller.view.is_shared else "\n".join(caller.identity)),
            self._settings.url,
            parts,
            listing_url=listing.url,
            file=listing.file,
            custom=listing.custom,
            documents=listing.documents,
            timeout=listing.timeout,
            max_bytes=max(MAX_LISTING, self._settings.max_response),
            patience=patience,
            secrets=(*self._secrets, *secrets_in(self._settings.url), *secrets_in(listing.url or "")),
            form=self._form,
            others=_other_forms(self._settings) if self._form == form_of(self._settings) else (),
            reserve=self._reserve,
        )


def form_of(settings: Backend) -> MessageForm:
    """Return the configured message form, or the first one to try."""
    form = {"1.0": ONE, "2.0-with-params": ALWAYS}.get(settings.version, PLAIN)
    return replace(form, integer_ids=settings.ids == "integer")


def _other_forms(settings: Backend) -> tuple[MessageForm, ...]:
    """Return the message forms to try where the backend does not understand the first."""
    first = form_of(settings)
    others = {"auto": (ALWAYS, ONE), "2.0": (ALWAYS,)}.get(settings.version, ())
    forms = [replace(form, integer_ids=first.integer_ids) for form in others]
    if settings.ids == "auto":
        forms.append(replace(first, integer_ids=True))
    return tuple(form for form in forms if form != first)


def _quarantine_redacted(listing: Listing) -> Listing:
    """Quarantine the methods whose name or endpoint quoted a credential: without it they cannot be called."""
    usable = tuple(method for method in listing.methods if REDACTED not in _call_target(method))
    if len(usable) == len(listing.methods):
        return listing
    reason, remedy = "its name quotes a credential", "give it another name in the backend's listing"
    unusable = (method.name for method in listing.methods if REDACTED in _call_target(method))
    quarantined = (QuarantinedMethod(name, reason, remedy) for name in unusable)
    return replace(listing, methods=usable, quarantined=(*listing.quarantined, *quarantined))


def _call_target(method: Method) -> str:
    return f"{method.wire_name or method.name} {method.endpoint or ''}"
