"""Read what a service, or what stands in front of it, says in its answer: the cause that it tells, and a quote."""

import html
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from gateway import jsonrpc
from gateway.diagnosis.connection import shown
from gateway.diagnosis.trouble import Diagnosis, Trouble, is_message
from gateway.model import HttpFacts
from gateway.text import printable, shorten

_QUOTED: Final = 120
"""Characters of an answer that are shown."""
_READ: Final = 16 * 1024
"""Characters of an answer that are searched: some expressions take quadratic time."""
_BEFORE: Final = 16
"""Of these, characters before the words that told the cause."""
_LEVELS: Final = 5
_TAG: Final = re.compile(r"<(?:script|style)\b.*?</(?:script|style)>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_PHP: Final = re.compile(r"(?:PHP )?(Warning|Notice|Deprecated|Fatal error|Parse error): ")
_CODINGS: Final = {"br": "brotli", "zstd": "zstd", "compress": "compress"}
_BEGINNINGS: Final = {
    b"\xef\xbb\xbf": ("It sends a byte order mark before the JSON.", "Save the service's own files without it."),
    b"\xff\xfe": ("It sends UTF-16.", "Have it send JSON in UTF-8."),
    b"\x1f\x8b": ("It compresses with gzip, and does not say so.", "Have it send Content-Encoding: gzip."),
}
"""First bytes of a body that is no JSON, with cause and next step."""
_JSON_TYPES: Final = re.compile(r"application/json-rpc|application/jsonrequest")


_PROTOCOLS: Final = {
    "gRPC": "grpc-status: ",
    "XML-RPC": "<methodResponse",
    "SOAP": r"<[\w-]+:Envelope|<Envelope|schemas\.xmlsoap\.org|(?<!content-type: )application/soap\+xml",
    "GraphQL": "graph(?:i?ql<|ql (?:operation|query|request|error))|must provide query string"
    r'|"errors": ?\[.{0,900}"(?:locations|extensions)": ?[\[{]',
}
DIRECTLY: Final = "Connect the client to it directly, without this gateway."
_ENDPOINT: Final = "Set {knob} to the JSON-RPC endpoint, if it has one."
_RULES: Final[tuple[tuple[str, str, str, Sequence[int]], ...]] = (
    ("mcp-session-id|missing session id|client must accept .{0,40}text/event-stream",
     "It is an MCP server already ({said}).", DIRECTLY, ()),
    *((words, f"It speaks {name}.", f"The gateway does not speak {name}. {_ENDPOINT}", ())
      for name, words in _PROTOCOLS.items()),
    # What stands in front.
    ("No required SSL certificate|certificate required", "{place} wants a client certificate.",
     "Set {tls}.cert_file and {tls}.key_file.", (400, 403, 495, 496)),
    ("cf-mitigated: challenge|server: cloudflare.*(?:Just a moment|Checking your browser)",
     "Cloudflare, in front of it, asks for a browser (HTTP {status}).",
     "Let this machine through Cloudflare without a challenge, or use an address behind it.", (403, 429, 503)),
    ("server: cloudflare.*blocked", "Cloudflare, in front of it, refuses this machine ({said}).",
     "Allow this machine at Cloudflare, or use an address behind it.", (403,)),
    ("proxy-authenticate: |proxy authentication", "{proxy} wants a login (HTTP 407).", "{proxy_step}", (407,)),
    ("x-squid-error: ", "{proxy} refuses the request ({said}).", "{proxy_step}", ()),
    ("HTTP request (?:was sent )?to (?:an )?HTTPS|plain HTTP to an SSL",
     "It wants HTTPS ({said}).", "Set {knob} to {https}", (400, 403, 426)),
    ("ALLOWED_HOSTS|HTTP_HOST|invalid host|host ?name (?:was unrecog|does not)|host whitelist|misdirected",
     "It does not know the name of its host ({said}).",
     "Set {knob} to a name that it knows, or add this one to those that it allows.", (400, 403, 421)),
    (r"csrf|xsrf|\bcrumb\b|authenticity ?token|\breferer|\borigin\b.{0,20}\b(?:not allowed|denied|invalid|mismatch)"
     r"|x-requested-with|missing (?:http )?header|header [\w-]{1,40} (?:is )?(?:missing|required)",
     "It wants a header that is not sent ({said}).",
     "Set {credentials}.mode: static, and the header in {credentials}.send.headers.", (400, 403, 419, 422)),
    (r"\bip\b.{0,60}\b(?:not allowed|not in|blocked|denied)|allow[ _-]?(?:list|ip)|whitelist",
     "It refuses the address of this machine ({said}).", "Allow this machine at the service.", (401, 403)),
    (r"\Aevent: ?endpoint", "It is an MCP server already, of the revision 2024-11-05.", DIRECTLY, ()),
    ('"openapi": ?"3|"swagger": ?"2|swagger-ui|<redoc', "It is a REST API, described by OpenAPI.",
     "For a REST API use a program that makes tools of OpenAPI; else set {knob} to the JSON-RPC endpoint.", ()),
    ("x-transmission-session-id: ", "It is Transmission, and wants its X-Transmission-Session-Id (HTTP 409).",
     "Log in as docs/credentials.md shows for Transmission.", (409,)),
    (r'"arguments": ?\{.*"result": ?"|"result": ?"[^"]*".*"arguments": ?\{',
     "It is Transmission before 4.1, which does not speak JSON-RPC.", "Update it to 4.1 or later.", ()),
    # Statuses alone.
    ("", "A proxy answers at {place}, but not the service behind it (HTTP {status}).",
     "Start the service behind the proxy.", (502, 504, *range(520, 528))),  # those from 520 on are Cloudflare's
    ("", "The service is in maintenance or overloaded (HTTP {status}).", "Try again {when}.", (503,)),
    ("", "The service gets too many requests (HTTP {status}).", "Try again {when}.", (429,)),
    ("", "It does not take requests of this size (HTTP {status}).",
     "Raise the limit for bodies of the service, or of the proxy in front of it.", (413,)),
)  # fmt: skip
"""Words of the headers or the body, the cause that they tell, the next step, and the statuses, where not all.
``{said}`` quotes the words."""


def of_answer(trouble: Trouble, http: HttpFacts) -> Diagnosis | None:
    """Return the cause that the words, or the form, of an answer to POST tell."""
    return of_page(trouble, http) or next(_of_form(trouble, http, text_of(http)), None)


def of_page(trouble: Trouble, http: HttpFacts) -> Diagnosis | None:
    """Return the cause that the words of an answer tell, also of one to GET."""
    if not http.status or (http.status < 400 and is_message(http)):
        return None
    heads = "\n".join(f"{name.lower()}: {value}" for name, value in http.headers.items())
    body, text = http.start[:_READ].decode("utf-8", "replace"), text_of(http)
    whole = f"{heads} {body}".replace("\n", " ")
    for words, cause, step, statuses in _RULES:
        told = re.search(f"(?i){words}", text)
        if (told or re.search(f"(?i){words}", whole)) and (not statuses or http.status in statuses):
            after = http.headers.get("Retry-After", "")
            when = f"in {after} s" if re.fullmatch(r"[0-9]{1,6}", after) else "later"
            fields = {"said": quoted(text, told), "status": http.status, "when": when}
            fields |= places(trouble)
            return Diagnosis(cause.format(**fields), step.format(**fields), rule=cause)
    return None


def _of_form(trouble: Trouble, http: HttpFacts, text: str) -> Iterator[Diagnosis]:
    """Yield what is wrong with the form of an answer, or with that of the question."""
    if coding := _CODINGS.get(http.headers.get("Content-Encoding", "").strip().lower()):
        step = "Have it compress only as the request's Accept-Encoding allows, or not at all."
        yield Diagnosis(f"It compresses with {coding}, unasked.", step)
    yield from (Diagnosis(*found) for begin, found in _BEGINNINGS.items() if http.start.startswith(begin))
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


def places(trouble: Trouble) -> dict[str, str]:
    """Return the knobs and places that a rule may name."""
    knob = trouble.settings.knob
    backend_proxy = knob("backend.proxy")
    places = {
        "knob": trouble.knob, "credentials": knob("backend.credentials"), "proxy": "A proxy at this address",
        "place": trouble.place, "https": shown(trouble.url.replace("http:", "https:", 1)), "tls": knob("backend.tls"),
    }  # fmt: skip
    proxy = urlsplit(trouble.settings.backend.proxy or "").netloc.rpartition("@")[2]  # without its password
    if not proxy:
        step = (
            f"Set {trouble.knob} to the service itself, and {backend_proxy} to a proxy that lets this machine through."
        )
        return {**places, "proxy_step": step}
    step = f"Use a proxy that lets this machine through by its address: {backend_proxy} takes no password."
    return {**places, "proxy": f"The proxy {proxy}", "proxy_step": step}


def text_of(http: HttpFacts) -> str:
    """Return the words of a body in one line: of JSON its texts, of a page what stands between its tags."""
    text = http.start.decode("utf-8", "replace")
    if "json" in http.content_type or text.lstrip()[:1] == "{":
        with suppress(ValueError):  # longer than what was kept, or broken
            text = " ".join(_texts(jsonrpc.decode(http.start.strip()), _LEVELS)) or text
    text = text[:_READ]
    if "html" in http.content_type or "xml" in http.content_type or "<" in text[:20]:
        text = html.unescape(_TAG.sub(" ", text))
    text = re.sub(r" (?=[:.,])", "", " ".join(printable(text).split()))
    return next((text[end + 1 :] for end in range(len(text) // 2, 4, -1) if _is_twice(text, end)), text)


def _is_twice(text: str, end: int) -> bool:
    """Return whether what a text begins with stands there once more, as the title of a page that is its heading too."""
    after = text[2 * end + 1 : 2 * end + 2]
    return text[end : end + 1] == " " and text.startswith(text[:end], end + 1) and not (after.isalnum() or after == "_")


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
