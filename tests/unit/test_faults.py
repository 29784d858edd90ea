"""What strangers may read of a backend's error."""

from __future__ import annotations

import json
from typing import Any

from gateway.backend.redaction import MAX_BYTES, ErrorRedactor, secrets_in_headers
from gateway.jsonrpc.response import ResponseError
from tests.each import each
from tests.pace import quickly
from tests.tables import each_row, each_row_and

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJib2IifQ.c2lnbmF0dXJl"
CLEANER = ErrorRedactor(["backend.internal:8080", "backend.internal", "hunter2-hunter2", "pw", ""])

# Messages as real services word them: they help a model to mend its call, and go through unharmed.
UNHARMED = [
    "Method not found",
    "Invalid params",
    "The method 'nope.method' does not exist/is not available.",
    "Missing required parameter: nid",
    "Node with ID 99 not found",
    "Access Denied: The 'administer site configuration' permission is required.",
    'argument "a" (str) is neither float or int',
    "Input should be a valid integer, unable to parse string as an integer [type=int_parsing, input_value='x']",
    "Expected param at key: limit to match the json schema",
    "The parameter at 0 is required but missing.",
    "Received value does not match any of the union type definitions",
    "Incorrect number of arguments. 'eth_getBlockByNumber' requires exactly 2 arguments.",
    "Unexpected token undefined in JSON at position 3",
    "Basic authentication required",
    "The token signature does not match",
    "price must be >= 0.5 and <= 10.25",
    "Use yyyy-mm-dd, e.g. 2026-11-21T10:30:00+01:00",
    "value_error.missing at body.user.name",
    "either/or, and/or, 50/50, n/a",
    "No book 9780131103627: did you mean 978-0-13-110362-7?",
    "Der Dateiname darf nicht leer sein: größer als 0 Zeichen",
    "at most 10 items",
    "#1 priority is taken",
]

REDACTED = {
    "a token": (f"token rejected: {JWT}", "eyJ", "token rejected: [token]"),
    "a token within a word": (f"session-{JWT}", "eyJ", "[token]"),
}

STACKS = {
    "Python": """Traceback (most recent call last):
  File "/srv/a.py", line 3, in f
    raise KeyError(secret_value)
KeyError: no key""",
    "Java": """java.lang.IllegalStateException: no key
\tat com.acme.Cart.add(Cart.java:42)
\tat java.base/java.lang.Thread.run(Thread.java:833)
\t... 12 more""",
    "Java, with native code": """no key
\tat com.acme.Cart.add(Cart.java:42)
\tat com.acme.secret_value(Native Method)""",
    "PHP": """no key
Stack trace:
#0 /var/www/cart.php(12): Cart->secret_value()
#1 {main}""",
    "JavaScript": """no key
    at secret_value (/app/cart.js:10:5)
    at new Promise (<anonymous>)
    at async run (node:internal:1)""",
}


@each("message", UNHARMED)
def test_an_ordinary_message_goes_through_unharmed(message: str) -> None:
    assert CLEANER.redact(message) == message


@each_row_and(REDACTED)
def test_what_is_internal_is_taken_out(text: str, leak: str, shown: str) -> None:
    cleaned = CLEANER.redact(text)
    assert leak not in cleaned
    assert cleaned == shown


@each("stack", STACKS)
def test_a_stack_is_taken_out_and_its_sentence_stays(stack: str) -> None:
    cleaned = CLEANER.redact(stack)
    assert "no key" in cleaned
    for leak in (
        "secret_value",
        "cart.",
        "Cart.java",
        "line 3",
        "acme",
        "Traceback",
        "Promise",
        "12 more",
        "java.lang",
    ):
        assert leak not in cleaned


@each("pad", {"short": "", "beyond the bound": "x" * 3000})
def test_a_secret_that_json_escapes_is_taken_out_of_json_as_well(pad: str) -> None:
    secret = 'Token token="k3y/one", p="a\\b"'
    cleaner = ErrorRedactor([secret])
    for fault in (
        ResponseError(1, "failed", {"sent": secret, "pad": pad}),
        ResponseError(1, "failed", [secret, pad]),
        ResponseError(1, json.dumps({"sent": secret})),
        ResponseError(1, json.dumps({"sent": secret}).replace("/", "\\/")),  # PHP
    ):
        passed = cleaner.service_error(fault)
        for said in (cleaner.error_text(fault), str(passed), ErrorRedactor().error_text(fault, [secret])):
            assert "[redacted]" in said
            assert "k3y" not in said


def test_short_secrets_do_not_blot_out_words() -> None:
    assert CLEANER.redact("pw is short") == "pw is short"


@each_row
def test_a_fault_is_described_in_a_sentence_or_two(fault: ResponseError, text: str) -> None:
    assert CLEANER.error_text(fault) == text


@each("data", ["é" * 5000, {"k": ["x" * 3000]}, "a" * 10**6])
def test_whatever_comes_is_capped(data: Any) -> None:
    described = CLEANER.error_text(ResponseError(1, "m" * 1500, data))
    assert len(described.encode()) <= MAX_BYTES
    assert described.endswith("…")


def test_of_a_long_list_only_the_beginning_is_told() -> None:
    assert CLEANER.error_text(ResponseError(1, "m", ["x"] * 50_000)) == "m: [" + ",".join(['"x"'] * 20) + "]"


def test_a_deep_detail_is_cut_off() -> None:
    deep: Any = "end"
    for _ in range(500):
        deep = {"a": deep}
    assert "end" not in CLEANER.error_text(ResponseError(1, "m", deep))


TORTURES = {
    "colons and digits": "at " + ":" * 300 + "1" * 15000 + "x",
    "many places": "at " + ":1" * 8000 + "x",
    "one long word": "a" * 16384,
    "a dotted word": "a." * 8000,
    "slashes and pluses": "/+" * 8000,
    "beginnings of tokens": "-eyJ" * 4000,
    "backslashes": "a\\" * 8000,
    "blanks after a token": "token" + " " * 16000,
    "schemes": "a+" * 8000,
    "a path without an end": "/a" * 8000,
    "digits and dots": "1." * 8000,
}


@each("text", TORTURES)
def test_cleaning_takes_time_linear_in_the_text(text: str) -> None:
    with quickly(0.2):
        CLEANER.redact(text)


def test_what_headers_show_is_secret_whatever_they_are_called_but_not_what_everybody_may_know() -> None:
    headers = {"Authorization": "Bearer t0ken", "X-Api-Key": "k3y", "Accept-Language": "de", "traceparent": "00-1-2-01"}
    assert secrets_in_headers(headers) == ("t0ken", "k3y")
