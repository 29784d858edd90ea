"""Read what a service, or what stands in front of it, says in its answer: the cause that it tells, and a quote."""

import html
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from gateway import jsonrpc
from gateway.diagnosis.trouble import Diagnosis, Trouble
from gateway.model import HttpFacts
from gateway.text import printable, shorten

_QUOTED: Final = 120
"""Characters of an answer that are shown."""
_BEFORE: Final = 16
"""Of these, characters before the words that told the cause."""
_LEVELS: Final = 5
_TAG: Final = re.compile(r"<(?:script|style)\b.*?</(?:script|style)>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_PHP: Final = re.compile(r"(?:PHP )?(Warning|Notice|Deprecated|Fatal error|Parse error): ")
_CODINGS: Final = {"br": "brotli", "zstd": "zstd", "compress": "compress"}
_JSON_TYPES: Final = re.compile(r"application/json-rpc|application/jsonrequest")


class _Rule(NamedTuple):
    """Hold the statuses and the words, of headers or body, that tell a cause. {said} quotes the words."""

    words: re.Pattern[str]
    cause: str
    next: str
    statuses: tuple[int, ...] = ()


_ENDPOINT: Final = "Set {knob} to the JSON-RPC endpoint, if it has one."
_HEADER: Final = "Set {credentials}.mode: static, and the header in {credentials}.send.headers."
_RULES: Final = (
    _Rule(re.compile(r"(?i)mcp-session-id|missing session id|client must accept .{0,40}text/event-stream"),
          "It is an MCP server already ({said}).", "Connect the client to it directly, without this gateway."),
    # What stands in front.
    _Rule(re.compile(r"(?i)cf-mitigated: challenge|server: cloudflare.*(?:Just a moment|Checking your browser)"),
          "Cloudflare, in front of it, asks for a browser (HTTP {status}).",
          "Let this machine through Cloudflare without a challenge, or use an address behind it.", (403, 429, 503)),
    _Rule(re.compile(r"(?i)server: cloudflare.*blocked"), "Cloudflare, in front of it, refuses this machine ({said}).",
          "Allow this machine at Cloudflare, or use an address behind it.", (403,)),
    _Rule(re.compile(r"(?i)proxy-authenticate: |proxy authentication"),
          "{proxy} wants a login (HTTP 407).", "{proxy_step}", (407,)),
    _Rule(re.compile(r"(?i)ALLOWED_HOSTS|HTTP_HOST|invalid host|host ?name was unrecog|host whitelist|misdirected"),
          "It does not know the name of its host ({said}).",
          "Set {knob} to a name that it knows, or add this one to those that it allows.", (400, 403, 421)),
    _Rule(re.compile(r"(?i)csrf|xsrf|\breferer|\borigin (?:is )?(?:not allowed|denied|invalid|mismatch)"
          r"|x-requested-with|missing (?:http )?header|header [\w-]{1,40} (?:is )?(?:missing|required)"),
          "It wants a header that is not sent ({said}).", _HEADER, (400, 403, 419)),
    _Rule(re.compile(r"(?i)\bip\b.{0,60}\b(?:not allowed|not in|blocked|denied)|(?:allow ?list|whitelist)"),
          "It refuses the address of this machine ({said}).", "Allow this machine at the service.", (401, 403)),
    # Other protocols, and other forms of JSON.
    _Rule(re.compile(r"(?i)grpc-status: "), "It speaks gRPC.", _ENDPOINT),
    _Rule(re.compile(r"(?i)<methodResponse"), "It speaks XML-RPC.", _ENDPOINT),
    _Rule(re.compile(r"(?i)<[\w-]+:Envelope|<Envelope|schemas\.xmlsoap\.org"), "It speaks SOAP.", _ENDPOINT),
    _Rule(re.compile(r"(?i)graphql|must provide query string|\"locations\": ?\["), "It speaks GraphQL.", _ENDPOINT),
    _Rule(re.compile(r"(?i)\"openapi\": ?\"3|\"swagger\": ?\"2"), "It is an OpenAPI document, of a REST API.",
          "For a REST API use a program that makes tools of OpenAPI; else set {knob} to the JSON-RPC endpoint."),
    _Rule(re.compile(r"(?i)x-transmission-session-id: "),
          "It is Transmission, and wants its X-Transmission-Session-Id (HTTP 409).",
          "Log in as docs/credentials.md shows for Transmission.", (409,)),
    _Rule(re.compile(r"(?i)\"arguments\": ?\{.*\"result\": ?\"|\"result\": ?\"[^\"]*\".*\"arguments\": ?\{"),
          "It is Transmission before 4.1, which does not speak JSON-RPC.", "Update it to 4.1 or later."),
)  # fmt: skip


def of_words(trouble: Trouble) -> Diagnosis | None:
    """Return the cause that the words of the first answer tell."""
    http = trouble.http
    if http is None:
        return None
    heads = "\n".join(f"{name.lower()}: {value}" for name, value in http.headers.items())
    body, text = http.start.decode("utf-8", "replace"), text_of(http)
    for rule in () if trouble.speaks_json_rpc and http.status < 400 else _RULES:
        found = rule.words.search(text) or rule.words.search(f"{heads} {body}".replace("\n", " "))
        if found is not None and (not rule.statuses or http.status in rule.statuses):
            fields = {**_places(trouble), "said": quoted(text, rule.words.search(text)), "status": http.status}
            return Diagnosis(rule.cause.format(**fields), rule.next.format(**fields))
    return next(_of_form(trouble, http, text), None)


def _of_form(trouble: Trouble, http: HttpFacts, text: str) -> Iterator[Diagnosis]:
    """Yield what is wrong with the form of an answer, or with that of the question."""
    if coding := _CODINGS.get(http.headers.get("Content-Encoding", "").strip().lower()):
        step = "Have it compress only as the request's Accept-Encoding allows, or not at all."
        yield Diagnosis(f"It compresses with {coding}, unasked.", step)
    if http.start.startswith(b"\xef\xbb\xbf"):
        yield Diagnosis("It sends a byte order mark before the JSON.", "Save the service's own files without it.")
    if php := _PHP.match(text):
        said = quoted(text)
        if http.status >= 500 or php[1] in ("Fatal error", "Parse error"):
            yield Diagnosis(f"PHP fails ({said}).", "Look into the log of the service.")
        step = "Set display_errors = Off in the php.ini of the service, and mend what it warns of."
        yield Diagnosis(f"PHP writes a warning before the JSON ({said}).", step)
    if http.status == 415 and "xml" not in http.content_type:
        named, knob = _JSON_TYPES.search(text), trouble.settings.knob("backend.content_type")
        step = f"Set {knob}: {named[0] if named else 'application/json-rpc, or application/jsonrequest'}"
        yield Diagnosis(f"It does not take application/json (HTTP 415: {quoted(text, named)}).", step)
    if http.status in (409, 421, 422):
        step = f"Mend that at the service, or set {trouble.knob} to the JSON-RPC endpoint."
        yield Diagnosis(f"It refuses the request (HTTP {http.status}: {quoted(text)}).", step)
    if http.status in (406, 415):
        step = _ENDPOINT.format(knob=trouble.knob)
        yield Diagnosis(f"It does not speak JSON here (HTTP {http.status}: {quoted(text)}).", step)


def _places(trouble: Trouble) -> dict[str, str]:
    """Return the knobs and places that a rule may name."""
    knob = trouble.settings.knob
    backend_proxy = knob("backend.proxy")
    places = {"knob": trouble.knob, "credentials": knob("backend.credentials"), "proxy": "A proxy at this address"}
    if trouble.settings.backend.proxy is None:
        step = (
            f"Set {trouble.knob} to the service itself, and {backend_proxy} to a proxy that lets this machine through."
        )
        return {**places, "proxy_step": step}
    step = f"Use a proxy that lets this machine through by its address: {backend_proxy} takes no password."
    return {**places, "proxy": f"The proxy {trouble.proxy_place}", "proxy_step": step}


def text_of(http: HttpFacts) -> str:
    """Return the words of a body in one line: of JSON its texts, of a page what stands between its tags."""
    text = http.start.decode("utf-8", "replace")
    if "json" in http.content_type or text.lstrip()[:1] == "{":
        with suppress(ValueError):  # longer than what was kept, or broken
            text = " ".join(_texts(jsonrpc.decode(http.start.strip()), _LEVELS))
    if "html" in http.content_type or "xml" in http.content_type or "<" in text[:20]:
        text = html.unescape(_TAG.sub(" ", text))
    return re.sub(r" (?=[:.,])", "", " ".join(printable(text).split()))


def _texts(value: Any, levels: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and levels:
        known = [child for key, child in value.items() if key != "jsonrpc"] if isinstance(value, dict) else value
        for child in known:
            yield from _texts(child, levels - 1)


def quoted(text: str, found: re.Match[str] | None = None) -> str:
    """Return at most 120 characters of a text in quotes, of a longer text those around ``found``."""
    begin = 0
    if found is not None and len(text) > _QUOTED:
        begin = text.rfind(" ", 0, max(0, found.start() - _BEFORE)) + 1
    return f'"{shorten(text[begin:], _QUOTED)}"' if text else "an empty body"
