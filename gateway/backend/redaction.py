"""Remove secrets from listings and errors: services quote credentials, and callers and models read these texts."""

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import quote_plus

from gateway import jsonrpc
from gateway.concurrency.turns import Turns, run_at_once, run_in_turns
from gateway.errors import ServiceError
from gateway.jsonrpc.response import ResponseError
from gateway.text import printable, truncate

REDACTED: Final = "[redacted]"
MIN_SECRET: Final = 4  # to redact shorter ones would destroy ordinary words
_WORDS: Final = re.compile("[A-Za-z]*+(?:[ _.-][A-Za-z]++)*")
_LONG: Final = 8
_LONG_WORDS: Final = 16
_NODES: Final = 1000
_PLAIN_IN_QUERIES: Final = "!$'()*,/:?@"
"""Characters that an HTTP client may leave as they are in a query, although others encode them (RFC 3986 §3.4)."""
_HARMLESS: Final = ("Accept-Language", "traceparent", "tracestate", "baggage")
_CREDENTIAL_HEADER: Final = re.compile(r"(?i)(?:^|[-_])(?:authorization|api-?key|key|token|secret|password)\Z")


def secrets_in_headers(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets in the headers of an exchange: their values, without an authentication scheme."""
    return tuple(value.rpartition(" ")[2] for name, value in headers.items() if name not in _HARMLESS)


def is_credential_header(name: str) -> bool:
    """Return whether a header's name says that it holds a credential, as X-Api-Key does."""
    return _CREDENTIAL_HEADER.search(name) is not None


def looks_secret(text: str) -> bool:
    """Return whether a text may be redacted wherever it is. Short ones and plain words may not: listings and results
    have the word "admin" in other places than where it is a password."""
    return len(text) >= (_LONG_WORDS if _WORDS.fullmatch(text) else _LONG)


def written_forms(secrets: Iterable[str]) -> tuple[bytes, ...]:
    """Return the secrets as they may stand in JSON, without those that do not look like secrets."""
    forms = {form for secret in secrets if looks_secret(secret) for form in _forms(secret)}
    escaped = {json.dumps(form)[1:-1] for form in forms if not form.isascii()}
    return tuple(form.encode("utf-8", "surrogatepass") for form in sorted(forms | escaped))


async def redact_result(value: Any, secrets: Iterable[str]) -> Any:
    """Return the value of a call's result without the secrets that look like ones."""
    known = prepare_secrets([*filter(looks_secret, secrets)])
    return await run_in_turns(redact_in_steps(value, partial(redact_text, secrets=known)), Turns())


def redact_text(text: str, secrets: Sequence[str]) -> str:
    """Return the text without the secrets. In ``secrets``, one that contains another comes before it."""
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return text


def prepare_secrets(secrets: Sequence[str]) -> tuple[str, ...]:
    """Return the secrets in each form, the longest first. Leave out short ones, which are words."""
    forms = {form for secret in secrets if len(secret) >= MIN_SECRET for form in _forms(secret)}
    return tuple(sorted(forms, key=lambda one: (-len(one), one)))


def _forms(secret: str) -> Iterator[str]:
    """Yield the secret as it is and as it stands in a URL, each also as most JSON writers escape it, and as PHP's."""
    encoded = (quote_plus(secret, safe, errors="surrogatepass") for safe in ("", _PLAIN_IN_QUERIES))
    for form in (secret, *encoded):
        plain = json.dumps(form, ensure_ascii=False)[1:-1]
        yield from (form, plain, plain.replace("/", r"\/"))


def contains_secret(value: Any, secrets: Sequence[str]) -> bool:
    """Return whether a decoded JSON value contains one of the secrets. It may say True without cause."""
    try:
        written = jsonrpc.encode(value)
        return any(jsonrpc.encode(secret)[1:-1] in written for secret in secrets)
    except ValueError:
        return True  # not encodable, so the slow way has to find out


def redact_in_steps(value: Any, redact: Callable[[str], str]) -> Generator[None, None, Any]:
    """Return the value with its texts and member names redacted. Change it in place, and yield after each thousand
    nodes, so that a large listing does not hold the loop."""
    whole = [value]
    waiting: list[Any] = [whole]
    nodes = 0
    while waiting:
        container = waiting.pop()
        items = list(container.items()) if isinstance(container, dict) else list(enumerate(container))
        if isinstance(container, dict):
            container.clear()
        for key, child in items:
            name = redact(key) if isinstance(key, str) else key
            container[name] = redact(child) if isinstance(child, str) else child
            if isinstance(child, dict | list):
                waiting.append(child)
        nodes += len(items)
        if nodes >= _NODES:
            nodes = 0
            yield
    return whole[0]


MAX_BYTES: Final = 2048
_NO_MESSAGE: Final = "The backend reported an error"
_STACK_KEYS: Final = re.compile(r"stack|trace|^(?:exception|class|file|line)\Z", re.IGNORECASE)
_STACK_LINE = re.compile(
    r"^\s*(?:Traceback \(most recent call last\)|Stack trace:|File \".*\", line \d+|at .+[(:][^(:\s]*\d\)?$"
    r"|#\d+ (?:\{main\}|\[internal function\]|\S+\(\d+\):)|\.\.\. \d+ more)"
)
# Each pattern takes time linear in the text, which is a stranger's: no match can begin inside a run of characters.
_REDACTIONS: Final = (
    (re.compile(r"(?<![\w-])(?=(?:[\w-]*-)?eyJ)[\w-]++\.[\w-]++\.[\w-]*+"), "[token]"),
    (
        # After a blank, only a text that looks like a secret: "basic authentication" and "unexpected token" stay.
        re.compile(r"\b((?i:bearer|basic|token))(?:\s*[:=]\s*|\s+(?=[\w.~+/=-]*(?:\d|[a-z][A-Z])))[\w.~+/=-]{8,}"),
        rf"\1 {REDACTED}",
    ),
    (re.compile(r"\bresponse=\"?[0-9A-Fa-f]{32,128}\b"), f"response={REDACTED}"),  # of HTTP Digest
    (re.compile(r"\b[a-z][a-z0-9+.-]{0,20}://[^\s\"'<>]+", re.IGNORECASE), "[url]"),
    (re.compile(r"\\?(?<!\w)(?:[A-Za-z_]\w*+\\++){2,}[A-Za-z_]\w*"), "[class]"),
    (re.compile(r"(?<![\w.])(?:[A-Za-z_]\w*+\.)+__\w+__(?:\(\))?"), "[class]"),
    (re.compile(r"(?<![\w$.])(?:[A-Za-z_][\w$]*+\.)+[A-Z][\w$]*(?:Exception|Error)\b"), "[class]"),
    (
        re.compile(
            r"(?<![\w.@+-])(?:/[\w.@+-]++)+/[\w.@+-]+\.(?:php|py|js|mjs|ts|rb|java|go|cc?|cpp|inc|module)\b(?::\d++)*"
        ),
        "[path]",
    ),
    (re.compile(r"(?<![\w.])/(?:var|home|usr|opt|srv|etc|root|tmp)/[\w./@+-]+"), "[path]"),
)


class ErrorRedactor:
    """Redact the errors of one backend: their message and short data help a model to correct its call, but may quote
    stack traces, paths and tokens. ``secrets`` are strings that no caller may see, such as the backend's host."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = prepare_secrets([*secrets])

    def error_text(self, fault: ResponseError, credential: Sequence[str] = ()) -> str:
        """Return a sentence or two for the caller, at most :data:`MAX_BYTES` of UTF-8. ``credential`` is what this one
        exchange sent: services quote it."""
        message = self.redact(fault.message, credential).rstrip(".:") or _NO_MESSAGE
        data = self.redact(_text_of(fault.data), credential)
        if data and data not in message:
            message = f"{message}: {data}"
        return truncate(message, MAX_BYTES)

    def service_error(self, fault: ResponseError, credential: Sequence[str] = ()) -> ServiceError | None:
        """Return the service's own error, redacted, for ``backend.errors: passed``; None where it has no code. The data
        keep their form up to :data:`MAX_BYTES` of JSON; larger ones become a text that is cut there."""
        if fault.code is None:
            return None
        message = truncate(self.redact(fault.message, credential) or _NO_MESSAGE, MAX_BYTES)
        return ServiceError(fault.code, message, self._redact_data(_without_stacks(fault.data, 4), credential))

    def _redact_data(self, data: Any, credential: Sequence[str]) -> Any:
        raw = jsonrpc.encode(data)
        if len(raw) <= MAX_BYTES:
            cleaned = run_at_once(redact_in_steps(data, partial(self.redact, credential=credential)))
            if len(jsonrpc.encode(cleaned)) <= MAX_BYTES:  # a replacement may be longer than what it replaces
                return cleaned
        return truncate(self.redact(data if isinstance(data, str) else raw.decode(), credential), MAX_BYTES)

    def redact(self, text: str, credential: Sequence[str] = ()) -> str:
        """Return the text without stack traces, secrets, addresses, class names and file paths."""
        if not text:
            return ""
        text = printable(_without_stack(text[: 8 * MAX_BYTES])).strip()
        text = redact_text(text, (*prepare_secrets(credential), *self._secrets))
        for pattern, replacement in _REDACTIONS:
            text = pattern.sub(replacement, text)
        return text


def _without_stack(text: str) -> str:
    """Return the text without the lines of a stack trace and the indented lines below them (Python's source lines)."""
    kept = []
    within = False
    for line in text.splitlines():
        within = _STACK_LINE.match(line) is not None or (within and line[:1].isspace())
        if not within:
            kept.append(line)
    return "\n".join(kept)


def _text_of(data: Any) -> str:
    if data is None or isinstance(data, bool | int | float):
        return ""
    if isinstance(data, str):
        return data
    if isinstance(data, dict) and isinstance(data.get("message"), str):
        return str(data["message"])
    kept = _without_stacks(data, 4)
    return jsonrpc.encode(kept).decode() if kept else ""


def _without_stacks(value: Any, levels: int) -> Any:
    if isinstance(value, dict):
        if not levels:
            return {}
        return {key: _without_stacks(child, levels - 1) for key, child in value.items() if not _STACK_KEYS.search(key)}
    if isinstance(value, list):
        return [_without_stacks(child, levels - 1) for child in value[:20]] if levels else []
    return value
