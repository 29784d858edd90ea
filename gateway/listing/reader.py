"""Fetch a backend's listing in the configured dialect, or in the one that probing finds: the first that is answered.

No question of probing changes state, but a GET puts some services out of order. None is a batch or has ``params``,
because some services crash on either. An unknown method may cost two seconds (aria2 slows down guessing), so each
question has a short timeout.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Final, Protocol, Self
from urllib.parse import urlsplit

from cachetools import LRUCache
from msgspec import structs

from gateway.backend.interview import Interview
from gateway.backend.pace import Pace
from gateway.backend.refusals import CredentialTries, RefusedBefore
from gateway.backend.request_parts import RequestParts
from gateway.backend.source import BackendSource
from gateway.backend.transport import MAX_LISTING, Transport
from gateway.listing import describe, drupal, introspection, jsonrpc_mcp, kodi, mopidy, openrpc, plain, smd, static
from gateway.listing.custom import Custom
from gateway.listing.dialect import Dialect, ListingSource, NoListing, Step
from gateway.listing.endpoints import Endpoints
from gateway.listing.forms import form_of, other_forms
from gateway.listing.help import Help
from gateway.listing.ovsdb import Ovsdb
from gateway.listing.truenas import TrueNas
from gateway.listing.ubus import Ubus
from gateway.model import ANONYMOUS, NOT_ASKED, Caller, EndpointFault, Listing, SourceAnswer, View
from gateway.settings.backend import Backend
from gateway.text import secrets_in

FIRST: Final = "rpc.discover"
"""The first question to every service: a call, which each has to answer in some way."""
PATIENCE: Final = 3.0
"""Seconds for one question while probing."""

_MOST_KEPT: Final = 16 * 1024**2
"""Bytes of answers about methods that are kept from one refresh to the next, of all views."""

_ALL_DIALECTS: Final[tuple[Dialect, ...]] = (
    jsonrpc_mcp.JsonrpcMcp(),
    drupal.Drupal(),
    openrpc.OpenRpc(),
    smd.Smd(),
    describe.Describe(),
    introspection.SystemIntrospection(),
    kodi.Kodi(),
    mopidy.Mopidy(),
    Help(),
    Ovsdb(),
    plain.Plain(),
    TrueNas(),
    Ubus(),
    static.Static(),
    Custom(),
)

DIALECTS: Final[dict[str, Dialect]] = {dialect.name: dialect for dialect in _ALL_DIALECTS}
"""Every dialect by its name, in the order of probing: those with a specification first, those of one product last."""
_OF_DRUPAL: Final = (jsonrpc_mcp.JsonrpcMcp.name, drupal.Drupal.name)
_HARMED_BY_GET: Final = "libwww-perl-daemon"
"""Server whose JSON::RPC::Legacy refuses all calls after one GET, until its restart."""
HELD_BACK: Final = SourceAnswer(
    "a listing, not used because the narrower one of jsonrpc_mcp was denied; "
    "set backend.listing.dialect: drupal to offer all of its methods",
    denied=True,
)


async def probe_dialects(
    source: ListingSource, progress: Callable[[str], None] = lambda _: None, *, was_away: bool = False
) -> Listing:
    """Return the listing in the first dialect that the backend speaks. Call ``progress`` with each name that is tried.

    A GET puts some services out of order until their restart, so all calls come first, and those that are known are
    sent none. Only where the first answer or the path looks like Drupal's, its lists come at once.

    Raise :class:`NoListing` with every step where it speaks none, where it cannot be reached, refuses the credential or
    wants a pause, and where it has jsonrpc_mcp but denies it to this caller: Drupal's wider listing would then publish
    methods that the site's owner held back. Of a backend that ``was_away``, one question finds out whether it still is.
    """
    search = _Search(_CachingSource(source), progress)
    first = await search.source.call_method(FIRST)
    nothing = NoListing([Step(FIRST, first)])
    if first.unreachable or first.refused or nothing.limited or (was_away and first.away):
        raise nothing
    search.steps += () if first.has_value else [Step(FIRST, first)]
    probed = [dialect for dialect in DIALECTS.values() if _is_probed(dialect, source.url)]
    at_once = [dialect for dialect in probed if dialect.name in _OF_DRUPAL and _may_be_drupal(source.url, first)]
    listing = await search.find(at_once)
    calls = _CallsAlone(search.source)
    if listing is None:
        listing = await search.find([dialect for dialect in probed if dialect not in at_once], calls)
    if listing is None and not _is_harmed_by_get(first):
        listing = await search.find([DIALECTS[name] for name in calls.wanting])
    if listing is None:
        raise NoListing(search.steps)
    return listing


def _is_probed(dialect: Dialect, url: str) -> bool:
    info = dialect.info
    return info.probed and (not info.schemes or url.partition(":")[0].lower() in info.schemes)


def _may_be_drupal(url: str, first: SourceAnswer) -> bool:
    return urlsplit(url).path.endswith("/jsonrpc") or (first.http is not None and drupal.is_of_drupal(first.http))


def _is_harmed_by_get(first: SourceAnswer) -> bool:
    return first.http is not None and first.http.headers.get("Server", "").startswith(_HARMED_BY_GET)


class _Search:
    """Try dialects one after the other; ``steps`` are the questions that brought no listing."""

    def __init__(self, source: ListingSource, progress: Callable[[str], None]) -> None:
        self.source = source
        self.steps: list[Step] = []
        self._progress = progress
        self._is_held_back = False

    async def find(self, dialects: Iterable[Dialect], calls: "_CallsAlone | None" = None) -> Listing | None:
        """Return the first listing, None where there is none. With ``calls``, ask for no document."""
        for dialect in dialects:
            self._progress(dialect.name)
            try:
                listing = await dialect.fetch_listing(self.source if calls is None else calls.of(dialect))
            except NoListing as error:
                self.steps += [step for step in error.steps if step not in self.steps]
                if error.unreachable or error.is_partial or error.refused or error.limited:
                    raise NoListing(self.steps, is_partial=error.is_partial) from None
                # Its list has fewer methods than Drupal's own.
                self._is_held_back = self._is_held_back or (
                    dialect.name == jsonrpc_mcp.JsonrpcMcp.name and error.denied
                )
                continue
            if listing.dialect == drupal.Drupal.name and self._is_held_back:
                raise NoListing([*self.steps, Step(f"GET {drupal.PATH}", HELD_BACK)])
            return listing
        return None


class _CallsAlone:
    """Pass calls on to a source, and no question for a document; ``wanting`` names the dialects that have one."""

    def __init__(self, source: ListingSource) -> None:
        self._source = source
        self.wanting: dict[str, None] = {}
        self._dialect = ""
        self.url, self.listing, self.interview = source.url, source.listing, source.interview
        self.call_method, self.read_file = source.call_method, source.read_file

    def of(self, dialect: Dialect) -> Self:
        self._dialect = dialect.name
        return self

    async def get_document(self, url: str) -> SourceAnswer:
        self.wanting[self._dialect] = None
        return NOT_ASKED


class _CachingSource:
    """Ask a source each question once, because several dialects look for their listing in the same place."""

    def __init__(self, source: ListingSource) -> None:
        self._source = source
        self._answers: dict[str, SourceAnswer] = {}
        self._text_for_any: str | None = None
        self.url, self.listing, self.interview = source.url, source.listing, source.interview

    async def call_method(self, method: str, params: Any = None) -> SourceAnswer:
        if params is not None:
            return await self._source.call_method(method, params)
        if method not in self._answers:
            self._answers[method] = self._unless_repeated(method, await self._source.call_method(method))
        return self._answers[method]

    def _unless_repeated(self, method: str, answer: SourceAnswer) -> SourceAnswer:
        """Return the answer, unless it is the text that the first method got: some services answer so to any method, in
        words that could pass for names."""
        text = answer.value.replace(method, "") if isinstance(answer.value, str) else ""
        if self._text_for_any is None:
            self._text_for_any = text
        elif text and text == self._text_for_any:
            return replace(answer, summary="JSON, but the text with which it answers any method", has_value=False)
        return answer

    async def get_document(self, url: str) -> SourceAnswer:
        if url not in self._answers:
            self._answers[url] = await self._source.get_document(url)
        return self._answers[url]

    async def read_file(self, file: str) -> bytes:
        return await self._source.read_file(file)


class ListingCredential(Protocol):
    """Provide what requests for a listing are sent with, and other parts than those that the backend refused. ``tries``
    counts refusals, None where none has to be counted."""

    tries: CredentialTries | None

    async def request_parts(self, caller: Caller) -> RequestParts: ...

    async def renew(self, caller: Caller, refused: RequestParts) -> RequestParts | None: ...


@dataclass(repr=False)  # which would show the secrets
class ListingReader:
    """Fetch listings of one backend. The dialect that probing found is kept until the backend stops speaking it, and so
    is the message form. ``transport_of`` returns the way for the listings of one caller, for "" those of all callers.
    ``secrets`` are removed from the listing. ``calls_alike``: calls have the credential of listings. ``dialect`` is
    what an earlier reader found, or "auto". ``progress`` is called with each dialect that probing tries. ``pace`` makes
    the pace of questions about methods."""

    transport_of: Callable[[str], Transport]
    settings: Backend
    credential: ListingCredential
    _: KW_ONLY
    progress: Callable[[str], None] = lambda _: None
    secrets: Sequence[str] = ()
    dialect: str = "auto"
    reserve: Callable[[int], bool] = lambda _: True
    pace: Callable[[], Pace] = Pace
    calls_alike: bool = True

    def __post_init__(self) -> None:
        self._form = form_of(self.settings)
        self._interviews: LRUCache[View, Interview] = LRUCache(_MOST_KEPT, getsizeof=lambda kept: kept.size)
        self._endpoints = Endpoints(trusts_refusals=self.calls_alike)
        self._was_away = False
        self._probes = self.settings.listing.dialect == "auto"
        self._question, self._answered = FIRST, ""
        self._refused: tuple[Step, ...] = ()
        if not self._probes:
            self.dialect = self.settings.listing.dialect

    def ask_all(self) -> None:
        """Ask about all methods in the next refresh, also where their listing is known."""
        self._endpoints.forget()
        for interview in self._interviews.values():
            interview.ask_all()

    async def fetch_listing(self, caller: Caller) -> Listing:
        """Return the listing that the caller may see. Raise :class:`NoListing`, and what the credential raises.

        Where the backend refuses the credential, ask once more with another one, if there is one: a listing has no
        effects. One that was refused before is not sent until it is time for the next try."""
        if (tries := self.credential.tries) is None or self.settings.listing.dialect == "static":
            return await self._fetch_listing(caller)
        try:
            async with tries.turn():
                return await self._try_listing(caller, tries)
        except RefusedBefore as refusal:
            waits = Step("the credential", SourceAnswer(str(refusal), denied=True, unauthorized=True))
            raise NoListing((*self._refused, waits)) from None

    async def _try_listing(self, caller: Caller, tries: CredentialTries) -> Listing:
        """Return the listing, and note whether the credential was accepted. Raise :class:`NoListing`."""
        self._answered = ""
        try:
            listing = await self._fetch_listing(caller)
        except NoListing as error:
            # At another address than the JSON-RPC endpoint all questions have to be refused, and calls may work.
            if error.refused or (error.steps and all(step.answer.unauthorized for step in error.steps)):
                self._refused = error.steps
                await tries.refuse(stops_calls=error.refused and self.settings.listing.url is None)
            elif self._answered:
                await tries.accept()
            raise
        if self._answered or not tries.stops_calls:
            await tries.accept()
        self._question = self._answered or self._question
        return listing

    async def is_refused(self, credential: ListingCredential) -> bool | None:
        """Return whether the JSON-RPC endpoint refuses the credential of calls, None where it does not answer."""
        answer = await self._ask_endpoint(ANONYMOUS, credential, self._question)
        return None if answer.away or answer.unreachable else answer.unauthorized

    async def result(self, caller: Caller, method: str, params: Any = None) -> Any:
        """Return what the JSON-RPC endpoint answers to who has the credential of listings, None where there is no
        result. Raise what the credential raises."""
        return (await self._ask_endpoint(caller, self.credential, method, params)).value

    async def _ask_endpoint(
        self, caller: Caller, credential: ListingCredential, method: str, params: Any = None
    ) -> SourceAnswer:
        source = self._source(caller, await credential.request_parts(caller), PATIENCE, Interview(self.pace()))
        source.listing = source.listing.model_copy(update={"url": None})
        try:
            return await source.call_method(method, params)
        finally:
            source.close()

    async def _fetch_listing(self, caller: Caller) -> Listing:
        parts = await self.credential.request_parts(caller)
        interview = self._interviews.pop(caller.view, None) or Interview(self.pace())
        try:
            try:
                return await self._read_listing(caller, parts, interview)
            except NoListing as error:
                renewed = await self.credential.renew(caller, parts) if error.unauthorized else None
                if renewed is None:
                    raise
            return await self._read_listing(caller, renewed, interview)
        finally:
            with suppress(ValueError):  # it has more answers than are kept of all
                self._interviews[caller.view] = interview

    async def _read_listing(self, caller: Caller, parts: RequestParts, interview: Interview) -> Listing:
        if self.dialect != "auto":
            source = self._source(caller, parts, None, interview)
            try:
                return await self._ask(DIALECTS[self.dialect].fetch_listing, source, caller)
            except NoListing as error:
                # A backend that is down, or denies the listing, may still speak the dialect.
                if not self._probes or error.unreachable or error.away or error.denied or error.is_partial:
                    raise
        source = self._source(caller, parts, PATIENCE, interview)
        was_away = self._was_away
        listing = await self._ask(
            lambda source: probe_dialects(source, self.progress, was_away=was_away), source, caller
        )
        self.dialect = listing.dialect
        return listing

    async def _ask(
        self, fetch: Callable[[ListingSource], Awaitable[Listing]], source: BackendSource, caller: Caller
    ) -> Listing:
        source.interview.start(source.restart, source.grant)
        try:
            listing = await fetch(source)
            # Discovery compares the digest of the answers, so an unchanged listing is not built again.
            digest = f"{listing.digest} {source.form}" if listing.digest else source.digest
            mended = f"the listing is no sound JSON and was mended: {source.mended}"
            notes = (*listing.notes, mended) if source.mended else listing.notes
            endpoints = await self._find_endpoint_faults(listing, source, caller)
            await source.note_end()
        except NoListing as error:
            self._was_away = error.away
            if error.away:
                self.ask_all()  # it may come back as another version
                source.interview.ask_all()
            self._form = form_of(self.settings)
            raise
        finally:
            self._answered = self._answered or source.accepted
            source.close()
        self._form, self._was_away = source.form, False
        digest = f"{digest} {endpoints}" if endpoints else digest
        size = listing.size or source.size
        return replace(listing, form=source.form, endpoints=endpoints, digest=digest, size=size, notes=notes)

    async def _find_endpoint_faults(
        self, listing: Listing, source: BackendSource, caller: Caller
    ) -> tuple[EndpointFault, ...]:
        if self.settings.wire != "http":
            return ()
        ask = partial(source.ask_at, method=FIRST, patience=PATIENCE)
        return await self._endpoints.faults(listing, source, ask, is_shared=caller.view.is_shared)

    def _source(
        self, caller: Caller, parts: RequestParts, patience: float | None, interview: Interview
    ) -> BackendSource:
        settings, listing = self.settings, self.settings.listing
        has_credential = self.credential.tries is not None or bool(parts.secrets)
        others = other_forms(settings) if self._form == form_of(settings) else ()
        if any(form.framing != self._form.framing for form in others):
            patience = PATIENCE  # who waits for the end of a message says nothing
        # A shared listing has one language: its view names none. The first caller must not choose it for all.
        if language := listing.language or caller.view.language:
            parts = structs.replace(parts, headers={**parts.headers, "Accept-Language": language})
        return BackendSource(
            self.transport_of("" if caller.view.is_shared else "\n".join(caller.identity)),
            settings.target,
            parts,
            listing=listing,
            max_bytes=max(MAX_LISTING, settings.max_response),
            patience=patience,
            secrets=(*self.secrets, *secrets_in(settings.url), *secrets_in(listing.url or "")),
            form=self._form,
            others=others,
            has_credential=has_credential,
            reserve=self.reserve,
            interview=interview,
            lenient=settings.lenient,
        )
