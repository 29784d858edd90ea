"""Remove secrets from listings and errors: services quote credentials, and callers and models read these texts."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote_plus

from gateway import jsonrpc
from gateway.concurrency.turns import run_in_turns

REDACTED: Final = "[redacted]"
MIN_SECRET: Final = 4  # to redact shorter ones would destroy ordinary words
_WORDS: Final = re.compile("[A-Za-z]*+(?:[ _.-][A-Za-z]++)*")
_LONG: Final = 8
_LONG_WORDS: Final = 16
_NODES: Final = 1000
_PLAIN_IN_QUERIES: Final = "!$'()*,/:?@"
"""Characters that an HTTP client may leave as they are in a query, although others encode them (RFC 3986 §3.4)."""
_HARMLESS: Final = ("Accept-Language", "traceparent", "tracestate", "baggage")


def secrets_in_headers(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets in the headers of an exchange: their values, without an authentication scheme."""
    return tuple(value.rpartition(" ")[2] for name, value in headers.items() if name not in _HARMLESS)


def looks_secret(text: str) -> bool:
    """Tell whether a text may be redacted wherever it stands. Short ones and plain words may not: listings and results
    have the word "admin" in other places than where it is a password."""
    return len(text) >= (_LONG_WORDS if _WORDS.fullmatch(text) else _LONG)


def written_forms(secrets: Iterable[str]) -> tuple[bytes, ...]:
    """Return the secrets as they may stand in JSON, without those that do not look like secrets."""
    forms = {form for secret in secrets if looks_secret(secret) for form in _forms(secret)}
    escaped = {json.dumps(form)[1:-1] for form in forms if not form.isascii()}
    return tuple(form.encode("utf-8", "surrogatepass") for form in sorted(forms | escaped))


async def redact_result(value: Any, secrets: Iterable[str]) -> Any:
    """Return the value of a call's result without the secrets that look like ones."""
    return await run_in_turns(redact_in_steps(value, prepare_secrets([*filter(looks_secret, secrets)])))


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
    """Tell whether a decoded JSON value contains one of the secrets. It may say True without cause."""
    try:
        written = jsonrpc.encode(value)
        return any(jsonrpc.encode(secret)[1:-1] in written for secret in secrets)
    except ValueError:
        return True  # not encodable, so the slow way has to find out


def redact_in_steps(value: Any, secrets: Sequence[str]) -> Generator[None, None, Any]:
    """Return the value without the secrets, in texts and in member names. Change it in place, and yield after each
    thousand nodes, so that a large listing does not hold the loop."""
    whole = [value]
    waiting: list[Any] = [whole]
    nodes = 0
    while waiting:
        container = waiting.pop()
        items = list(container.items()) if isinstance(container, dict) else list(enumerate(container))
        if isinstance(container, dict):
            container.clear()
        for key, child in items:
            name = redact_text(key, secrets) if isinstance(key, str) else key
            container[name] = redact_text(child, secrets) if isinstance(child, str) else child
            if isinstance(child, dict | list):
                waiting.append(child)
        nodes += len(items)
        if nodes >= _NODES:
            nodes = 0
            yield
    return whole[0]
