"""Take out of listings and errors what the service was shown and quotes there: they go to callers, and to models."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final

from gateway import jsonrpc

REDACTED: Final = "[redacted]"
MIN_SECRET: Final = 4  # redacting shorter ones would blot out ordinary words
_NODES: Final = 1000
_HARMLESS: Final = ("Accept-Language", "traceparent", "tracestate", "baggage")


def secrets_in_headers(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets that the headers of an exchange may show: their values, without an authentication scheme."""
    return tuple(value.rpartition(" ")[2] for name, value in headers.items() if name not in _HARMLESS)


def redact_text(text: str, secrets: Sequence[str]) -> str:
    """The text with each secret taken out; one that has another within comes before it in ``secrets``."""
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return text


def prepare_secrets(secrets: Sequence[str]) -> tuple[str, ...]:
    """Those that can be told from ordinary words, as they are and as JSON has them within a text, the longest first."""
    forms = {form for secret in secrets if len(secret) >= MIN_SECRET for form in (secret, *_json_escapes(secret))}
    return tuple(sorted(forms, key=lambda one: (-len(one), one)))


def _json_escapes(secret: str) -> tuple[str, str]:
    """As most writers of JSON escape it, and as PHP's does."""
    plain = json.dumps(secret, ensure_ascii=False)[1:-1]
    return plain, plain.replace("/", r"\/")


def contains_secret(value: Any, secrets: Sequence[str]) -> bool:
    """Tell whether a decoded JSON value has one of the secrets in it, however its sender escaped it."""
    try:
        written = jsonrpc.encode(value)
        return any(jsonrpc.encode(secret)[1:-1] in written for secret in secrets)
    except ValueError:
        return True  # it cannot be told so quickly


def redact_in_steps(value: Any, secrets: Sequence[str]) -> Generator[None, None, Any]:
    """The value without the secrets, in texts and in names of members. Changes it in place; pauses now and then."""
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
