"""Ask the backend for its listing. A question returns a :class:`SourceAnswer` and does not raise, whatever comes back.

A listing changes nothing, so a question may be repeated: on another connection where the first closed before the
answer, and in another form where the answer complains about the first. Some services always want ``params`` (Deluge,
Zabbix), others JSON-RPC 1.0 (Tryton) or integers for ids (i2pd).
"""

import hashlib
import re
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog
from msgspec import structs

from gateway import jsonrpc
from gateway.backend.interview import Interview
from gateway.backend.queue import QueueFull
from gateway.backend.redaction import contains_secret, prepare_secrets, redact_in_steps, redact_text
from gateway.backend.request_parts import RequestParts
from gateway.backend.transport import Outgoing, Refusal, Reply, Transport
from gateway.concurrency.threads import read_apart
from gateway.concurrency.turns import Turns, run_in_thread, run_in_turns
from gateway.http_client.response import ConnectFailed, DeadlinePassed, Interrupted, NoConnection, OutboundError
from gateway.jsonrpc import INDEX, Raw
from gateway.jsonrpc.bounds import echoes_unquoted, memory_cost
from gateway.jsonrpc.mending import json_fault, mend_in_steps
from gateway.jsonrpc.response import ResponseError, parse_decoded_response
from gateway.model import NOT_ASKED, MessageForm, SourceAnswer, Version
from gateway.settings import ListingSettings
from gateway.settings.knobs import texts_in
from gateway.text import shorten

PLAIN: Final = MessageForm()
ALWAYS: Final = MessageForm(always_params=True)
ONE: Final = MessageForm(Version.ONE, always_params=True)
INTEGERS: Final = MessageForm(integer_ids=True)
_ABOUT_FORM: Final = re.compile(r"\bparam|\bid\b", re.IGNORECASE)
_ID_DIGITS: Final = 12
_EXCERPT: Final = 80
_START: Final = 40
"""Characters of a broken answer that the operator sees."""
_REDACTED_BYTES: Final = 16 * 1024
_SPACE: Final = b" \t\r\n"
_MOST_ANSWERS: Final = 4
"""Sum of all answers about one listing, as a multiple of the largest one: each method may have one of its own."""
_PART: Final = 64 * 1024
"""Bytes that are decoded in one step."""
_END_WITHIN: Final = 0.1
"""Seconds from the only answer of a listing within which its connection may end because of it."""
_LEVELS: Final = 6
"""Levels of a document that are divided into parts."""

log = structlog.get_logger()


class BackendSource:
    """Ask the questions about one listing, with one caller's credential, within one deadline.

    ``url`` is the JSON-RPC endpoint, ``listing`` what the operator says of the listing. ``patience`` bounds each
    question, in seconds. ``secrets`` and those in ``parts`` are removed from answers. ``form`` is the form of the
    questions. It becomes one of ``others`` where the service complains about the first and understands that one.
    ``has_credential`` says that the questions carry one, whose refusal ends the search. ``accepted`` is the first
    question to which a response of JSON-RPC came. ``by_url`` has for each URL that was called an answer, such a
    response if there was one; ``document`` is the URL of the last document that came. ``interview`` keeps what is known
    of each method. ``reserve`` counts the memory of answers until :meth:`close`, and says whether there is room. With
    ``lenient`` an answer that is no sound JSON is mended; ``mended`` says what was wrong with the last one, "" if none.
    """

    def __init__(
        self,
        transport: Transport,
        url: str,
        parts: RequestParts,
        *,
        listing: ListingSettings,
        max_bytes: int,
        patience: float | None = None,
        secrets: Sequence[str] = (),
        form: MessageForm = PLAIN,
        others: Sequence[MessageForm] = (ALWAYS, ONE, INTEGERS),
        has_credential: bool = False,
        reserve: Callable[[int], bool] = lambda _: True,
        interview: Interview | None = None,
        lenient: bool = True,
    ) -> None:
        self.url = url
        self.listing = listing
        self.patience = patience
        self.form = form
        self.accepted = self.document = self.mended = ""
        self.by_url: dict[str, SourceAnswer] = {}
        self._others = tuple(others)
        self._has_credential = has_credential
        self._transport = transport
        self._parts = parts
        self._credentials = prepare_secrets((*parts.secrets, *secrets))
        # Params of a custom listing may be ordinary words, so they are removed from error texts but not from listings.
        self._secrets = prepare_secrets((*self._credentials, *texts_in(listing.custom.params)))
        self.interview = interview or Interview()
        self._granted = 0.0
        self.restart()
        self._max_bytes = max_bytes
        self._answer_hash: list[bytes] = []
        self.size = self._reserved = 0
        self._reserve = reserve
        self._lenient = lenient

    def restart(self) -> None:
        """Give the questions that follow the whole time for a listing: a search has used some of it."""
        self._deadline = time.monotonic() + self.listing.timeout

    def grant(self, seconds: float) -> None:
        """Let so many seconds of the gateway's own pauses, up to half the time for a listing, not count against it."""
        granted = min(seconds, self.listing.timeout / 2)
        self._deadline += granted - self._granted
        self._granted = granted

    @property
    def digest(self) -> str:
        """Return the digest of all questions and answers so far. Their order does not count."""
        return hashlib.sha256(b"".join(sorted(self._answer_hash))).hexdigest()

    async def note_end(self) -> None:
        """Learn whether the service ends each connection behind an answer. It may do so a moment after the only one."""
        if self._transport.has_documents or self.form.alone or not self._answer_hash:
            return
        is_only = len(self._answer_hash) == 1
        if await self._transport.ends_after_one(_END_WITHIN if is_only else 0.0):
            self._learn_alone()

    def _learn_alone(self) -> None:
        """Note that the service takes one message for each connection."""
        self.form = replace(self.form, alone=True)
        log.info("form of messages learned", **asdict(self.form))

    def close(self) -> None:
        """Note that the answers are not needed any more."""
        self._reserve(-self._reserved)
        self._reserved = 0

    async def call_method(self, method: str, params: Any = None) -> SourceAnswer:
        """Send a JSON-RPC call to the listing's own URL, if it has one, else to ``url``."""
        answer = await self._call_in_some_form(method, params)
        url = self.listing.url or self.url
        if url not in self.by_url or answer.is_response:
            self.by_url[url] = answer
        return answer

    async def _call_in_some_form(self, method: str, params: Any) -> SourceAnswer:
        answer, complains = await self._call_once(method, params, self.form)
        # The other forms are tried once: they cost questions, and a service that refuses all has another reason.
        others, self._others = (self._others, ()) if complains or answer.has_value else ((), self._others)
        for form in others if complains else ():
            is_other = form.framing != self.form.framing
            # Who waits for the end of a message is silent, and who cannot read one may end the connection.
            if is_other is not answer.late and not answer.ended:
                continue
            again, complains = await self._call_once(method, params, form)
            if not complains and not again.away:  # of no answer nothing is learned
                self.form = replace(form, in_order=self.form.in_order, alone=self.form.alone)
                log.info("form of messages learned", **asdict(self.form))
                return again
        return answer

    async def ask_at(self, url: str, method: str, patience: float) -> SourceAnswer:
        """Send one call to another URL. It has ``patience`` seconds, whatever the listing left."""
        self.patience = patience
        self.restart()
        return (await self._call_once(method, None, self.form, url))[0]

    async def _call_once(
        self, method: str, params: Any, form: MessageForm, url: str | None = None
    ) -> tuple[SourceAnswer, bool]:
        """Return the answer, and whether it complains about the form. ``url`` is another one than the listing's."""
        if params is None and form.always_params:
            params = []
        # An id of the question's own, and the same each time: services echo it, and equal listings need equal digests.
        asked = f"{method} {params!r} {replace(form, in_order=None, alone=False)}"
        digits = hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()
        id = int(digits[:7], 16) if form.integer_ids else f"q{digits[:_ID_DIGITS]}"
        body = jsonrpc.request_bytes(id, method, params, form.version, **self._parts.message)
        is_socket = not self._transport.has_documents
        form = replace(form, in_order=is_socket and self.form.in_order is not False, alone=self.form.alone)
        outgoing = Outgoing(id, body, self._parts, self._parts.headers, url or self.listing.url, form)
        reply = await self._ask(outgoing)
        if isinstance(reply, SourceAnswer):
            return reply, is_socket and (reply.late or reply.ended)
        found, complains = await self._result_in(reply, id, form)
        if (found.has_value or found.error) and not found.denied and params is None:
            self.accepted = self.accepted or method
        is_refused = found.unauthorized and self._has_credential
        return replace(found, http=reply.http, refused=is_refused, retry_after=reply.wanted_pause), complains

    async def get_document(self, url: str) -> SourceAnswer:
        """GET a JSON document, where that is possible."""
        if not self._transport.has_documents:
            return NOT_ASKED
        reply = await self._ask(Outgoing(None, b"", self._parts, self._parts.headers, url))
        if isinstance(reply, SourceAnswer):
            return reply
        found = await self._document_in(reply)
        self.document = url if found.has_value else self.document
        return replace(found, http=reply.http, retry_after=reply.wanted_pause)

    async def read_file(self, file: str) -> bytes:
        """Return the content of a local file. Raises :class:`OSError`."""
        content = await read_apart(Path(file).read_bytes)
        self._add_to_digest(file, content)
        return content

    def _add_to_digest(self, question: str, answer: bytes) -> None:
        digest = hashlib.sha256(f"{question} {len(answer)} ".encode("utf-8", "surrogateescape"))
        digest.update(answer)
        self._answer_hash.append(digest.digest())
        self.size += len(answer)

    async def _ask(self, outgoing: Outgoing, *, again: bool = True) -> Reply | SourceAnswer:
        """Return the reply, or a summary of why there is none. ``again`` allows one repetition."""
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            return SourceAnswer("not asked, the time for the listing is over", away=True)
        if self.size >= _MOST_ANSWERS * self._max_bytes:
            return SourceAnswer(f"not asked, the answers for the listing have {self.size} bytes already")
        timeout = remaining if self.patience is None else min(remaining, self.patience)
        try:
            reply = await self._transport.send(outgoing, timeout=timeout, max_bytes=self._max_bytes)
        except ConnectFailed as error:
            return SourceAnswer(str(error), unreachable=True, away=True)
        except DeadlinePassed as error:
            if again and error.ignored_second:
                apart = structs.replace(outgoing, form=replace(outgoing.form, alone=True))
                answer = await self._ask(apart, again=False)
                if not isinstance(answer, SourceAnswer):
                    self._learn_alone()
                return answer
            return SourceAnswer(f"no answer within {round(timeout, 1):g} s", away=True, late=True)
        except Interrupted as error:  # a service may close a kept connection just as it is used again
            if again:
                return await self._ask(outgoing, again=False)
            return SourceAnswer(str(error), away=True, ended=True)
        except OutboundError as error:
            lacking = isinstance(error, NoConnection)
            return SourceAnswer(str(error), unreachable=lacking, away=lacking or isinstance(error, QueueFull))
        large = len(reply.body) > _PART
        await Turns.begin()  # many services may have answered in this turn
        cost = await run_in_thread(memory_cost, reply.body) if large else memory_cost(reply.body)
        if not self._reserve(cost):
            return SourceAnswer("its answer was not read, since the gateway holds too much", away=True)
        self._reserved += cost
        question = f"{outgoing.url or self.url} {outgoing.body!r} {reply.label}"
        if large:
            await run_in_thread(self._add_to_digest, question, reply.body)
        else:
            self._add_to_digest(question, reply.body)
        return reply

    async def _result_in(self, reply: Reply, id: str | int, form: MessageForm) -> tuple[SourceAnswer, bool]:
        try:
            document = await self._decode_body(reply, id)
        except ValueError as error:
            complains = reply.blames_message or echoes_unquoted(reply.body, id)
            return _not_json(reply, self._secrets, str(error), str(id)), complains
        if form.in_order:
            has_id = isinstance(document, dict) and document.get("id") is not None
            self.form = replace(self.form, in_order=not has_id)  # until an answer has an id
        try:
            # Before 1.0 is known, a bare value has to look like a listing: many services answer a bare text or
            # {"detail": "not found"} to any question, and from then on their errors would be taken for results.
            known = self.form.version is Version.ONE or _has_entries(document)
            bare = form.version is Version.ONE and reply.is_success and known
            result, fault = parse_decoded_response(document, id, bare=bare, alone=reply.is_alone)
        except ValueError as error:
            return reply.summary(str(error)), reply.is_success or reply.blames_message
        if fault is None:
            return SourceAnswer("a result", with_lists(result), has_value=True), False
        unauthorized = reply.refused is Refusal.CREDENTIAL or self._parts.refused_with(fault)
        denied = unauthorized or reply.refused is Refusal.CALLER
        # Zabbix and others say only "Invalid params." there. Of an unknown method the data may be its name.
        data = fault.data if isinstance(fault.data, str) and fault.code != -32601 else ""
        said = shorten(redact_text(f"{fault.message} {data}".strip(), self._secrets), _EXCERPT)
        text = f"error{'' if fault.code is None else f' {fault.code}'}: {said}"
        message = said or "no message"
        found = SourceAnswer(text, denied=denied, unauthorized=unauthorized, error=message)
        return found, not denied and _complains(fault)

    async def _document_in(self, reply: Reply) -> SourceAnswer:
        if not reply.is_success:
            return reply.summary()
        try:
            return SourceAnswer("a document", with_lists(await self._decode_body(reply)), has_value=True)
        except ValueError as error:
            return _not_json(reply, self._secrets, str(error))

    async def _decode_body(self, reply: Reply, id: str | int | None = None) -> Any:
        """Return the decoded JSON without the credentials that it quotes. Raises :class:`ValueError` with what is wrong
        with it. ``id`` is that of the question, if it has one."""
        try:
            value = await run_in_turns(decode_in_steps(reply.body.strip(_SPACE)))
        except ValueError:
            value = await self._mended(reply, id)
        if self._credentials and contains_secret(value, self._credentials):
            log.warning("the listing quotes a credential, which is taken out of it")
            value = await run_in_turns(redact_in_steps(value, partial(redact_text, secrets=self._credentials)))
        return value

    async def _mended(self, reply: Reply, id: str | int | None) -> Any:
        """Return the value of JSON that was mended. Raises :class:`ValueError` as :meth:`_decode_body` does."""
        mended = None
        if self._reserve(2 * len(reply.body)):
            self._reserved += 2 * len(reply.body)
            mended = await run_in_turns(mend_in_steps(reply.body, id, self._max_bytes))
        if mended is None:
            raise ValueError(json_fault(reply.body))
        try:
            value = await run_in_turns(decode_in_steps(mended.body))
        except ValueError:
            raise ValueError(json_fault(reply.body)) from None
        if not self._lenient:
            raise ValueError(str(mended))
        self.mended = f"{mended}; {mended.remedy}"
        log.warning("answer about the listing mended", reason=self.mended)
        return value


def _not_json(reply: Reply, secrets: Sequence[str], fault: str, id: str = "") -> SourceAnswer:
    """Return a summary of a reply that is not JSON. For broken JSON it names the ``fault`` and its place, and the first
    bytes, without the ``id`` of the question: they show most causes, such as a PHP warning before the JSON."""
    claims_json = (
        reply.http is None or "json" in reply.http.content_type or reply.body.lstrip(_SPACE)[:1] in (b"{", b"[")
    )
    if not claims_json or not reply.body or reply.refused is not None:
        return reply.summary()
    # Redact before the cut: half a secret would not be found.
    start = redact_text(reply.body[:_REDACTED_BYTES].decode("utf-8", "surrogateescape"), secrets)
    start = start.replace(id, "@") if id else start
    first = repr(start[:_START].encode("utf-8", "surrogateescape"))[2:-1]
    return SourceAnswer(f"{reply.label}, broken JSON: {fault}; it begins with {first}")


def with_lists(document: Any) -> Any:
    """Return a listing whose list of entries, itself or a member of it, may be one with gaps: PHP writes a list from
    which it took an element as an object, ``{"0": …, "2": …}``."""
    if isinstance(document, dict):
        document = {name: _as_list(member) for name, member in document.items()}
    return _as_list(document)


def _as_list(value: Any) -> Any:
    """Return the values of an object whose names are all indexes, in their order; else the value."""
    is_list = isinstance(value, dict) and bool(value) and all(map(_is_index, value))
    return [value[name] for name in sorted(value, key=int)] if is_list else value


def _is_index(name: Any) -> bool:
    """Return whether the name of a member is an index. Other names than texts are of YAML."""
    return isinstance(name, str) and INDEX.fullmatch(name) is not None


def _has_entries(document: Any) -> bool:
    """Return whether a value may be a listing: a list, or an object with a list or an object in it."""
    values = document.values() if isinstance(document, dict) else ()
    return isinstance(document, list) or any(isinstance(value, list | dict) for value in values)


def _complains(fault: ResponseError) -> bool:
    """Return whether an error may be about the form of the message, rather than about the method."""
    words = f"{fault.message} {fault.data}"
    return fault.code in (-32600, -32700) or (fault.code != -32601 and _ABOUT_FORM.search(words) is not None)


def decode_in_steps(raw: bytes | Raw, level: int = 0) -> Generator[None, None, Any]:
    """Decode as :func:`gateway.jsonrpc.decode` does, and yield about every 64 KiB, so that a large document does not
    block the event loop. One huge string, or a list of tiny values, is still one step."""
    view = memoryview(raw)
    opening = bytes(view[:1])
    if view.nbytes <= _PART or level == _LEVELS or opening not in (b"{", b"["):
        yield
        return jsonrpc.decode(view)
    whole: Any = {} if opening == b"{" else []
    parts = jsonrpc.members_of(view).items() if opening == b"{" else enumerate(jsonrpc.elements_of(view))
    for key, part in parts:
        value = yield from decode_in_steps(part, level + 1)
        if opening == b"{":
            whole[key] = value
        else:
            whole.append(value)
    return whole
