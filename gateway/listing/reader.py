"""One backend's listing, asked for as the operator configured it, or as probing found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from gateway.backend.redaction import REDACTED
from gateway.backend.source import ALWAYS, ONE, PLAIN, BackendSource
from gateway.backend.transport import Transport
from gateway.listing.dialect import NoListing, Source
from gateway.listing.probe import DIALECTS, PATIENCE, probe
from gateway.model import Caller, Form, Listing, Method, Quarantined
from gateway.settings import Backend
from gateway.text import secrets_in


class Credential(Protocol):
    """What a listing is asked with."""

    async def headers(self, caller: Caller) -> Mapping[str, str]: ...

    def refused(self, caller: Caller) -> None: ...


class ListingReader:
    """Fetches listings; the dialect that probing found is remembered until the backend stops speaking it, and so is the
    form of messages that it understands. ``secrets`` are taken out of them, as is whatever ``credential`` shows.
    ``dialect`` is what an earlier reader found, or auto."""

    def __init__(
        self,
        transport: Transport,
        settings: Backend,
        credential: Credential,
        progress: Callable[[str], None] = lambda _: None,
        secrets: Sequence[str] = (),
        dialect: str = "auto",
    ) -> None:
        self._transport = transport
        self._settings = settings
        self._credential = credential
        self._progress = progress
        self._secrets = secrets
        configured = settings.listing.dialect
        self.dialect: str = dialect if configured == "auto" else configured
        self._form = form_of(settings)

    async def fetch(self, caller: Caller) -> Listing:
        """Raises :class:`NoListing`, and what the credential raises."""
        try:
            return _without_unusable(await self._read(caller))
        except NoListing as error:
            if error.unauthorized:
                self._credential.refused(caller)
            raise

    async def _read(self, caller: Caller) -> Listing:
        if self.dialect == "auto":
            return await self._probe(caller)
        try:
            return await self._asked(DIALECTS[self.dialect].fetch, await self._source(caller, None))
        except NoListing as error:
            configured = self._settings.listing.dialect != "auto"
            if configured or error.unreachable or error.denied:
                raise
            return await self._probe(caller)

    async def _probe(self, caller: Caller) -> Listing:
        source = await self._source(caller, PATIENCE)
        listing = await self._asked(lambda source: probe(source, self._progress), source)
        self.dialect = listing.dialect
        return listing

    async def _asked(self, ask: Callable[[Source], Awaitable[Listing]], source: BackendSource) -> Listing:
        try:
            listing = await ask(source)
        except NoListing:
            self._form = form_of(self._settings)
            raise
        self._form = source.form
        # The digest of what the listing was made of spares making equal ones anew.
        return replace(listing, form=source.form, digest=source.digest, size=source.size)

    async def _source(self, caller: Caller, patience: float | None) -> BackendSource:
        listing = self._settings.listing
        # A shared listing has one language; whoever asks first must not choose it for everybody.
        language = listing.language if caller.view.shared else caller.language or listing.language
        headers = dict(await self._credential.headers(caller))
        if language:
            headers["Accept-Language"] = language
        return BackendSource(
            self._transport,
            self._settings.url,
            headers,
            place=listing.url,
            file=listing.file,
            custom=listing.custom,
            documents=listing.documents,
            timeout=listing.timeout,
            max_bytes=listing.max_size,
            patience=patience,
            secrets=(*self._secrets, *secrets_in(self._settings.url), *secrets_in(listing.url or "")),
            form=self._form,
            others=_others(self._settings) if self._form == form_of(self._settings) else (),
        )


def form_of(settings: Backend) -> Form:
    """Return the form of messages that the operator wants, or the one to begin with."""
    if settings.version == "1.0":
        return ONE
    return ALWAYS if settings.params.always else PLAIN


def _others(settings: Backend) -> tuple[Form, ...]:
    """Return the forms that may be tried in place of the first."""
    others = {"auto": (ALWAYS, ONE), "2.0": (ALWAYS,), "1.0": ()}[settings.version]
    return tuple(form for form in others if form != form_of(settings))


def _without_unusable(listing: Listing) -> Listing:
    """A method that is called by what quoted a credential cannot be called by what is left of it."""
    usable = tuple(method for method in listing.methods if REDACTED not in _called_by(method))
    if len(usable) == len(listing.methods):
        return listing
    reason, remedy = "its name quotes a credential", "give it another name in the backend's listing"
    unusable = (method.name for method in listing.methods if REDACTED in _called_by(method))
    quarantined = (Quarantined(name, reason, remedy) for name in unusable)
    return replace(listing, methods=usable, quarantined=(*listing.quarantined, *quarantined))


def _called_by(method: Method) -> str:
    return f"{method.sent_as or method.name} {method.endpoint or ''}"
