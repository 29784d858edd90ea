"""The strict reader of compact tokens."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.auth.compact import MAX_BYTES, InvalidToken, has_jwt_form, parse_compact
from tests.each import each


def segment(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


HEADER = segment({"alg": "ES256", "typ": "at+jwt", "kid": "k1"})
CLAIMS = segment({"iss": "i", "sub": "s"})
GOOD = f"{HEADER}.{CLAIMS}.{segment(b'signature')}"


def test_a_token_is_taken_apart() -> None:
    token = parse_compact(GOOD)
    assert (token.alg, token.typ, token.kid) == ("ES256", "at+jwt", "k1")
    assert token.claims == {"iss": "i", "sub": "s"}
    assert token.signing_input == f"{HEADER}.{CLAIMS}".encode()
    assert token.signature == b"signature"
    assert has_jwt_form(GOOD)


@each(
    "raw",
    [
        "",
        "a.b",
        "a.b.c.d",
        "a.b.c.d.e",
        GOOD + "=",
        GOOD + "\n",
        " " + GOOD,
        f"{HEADER}.{CLAIMS}.",
        f".{CLAIMS}.AAAA",
        f"{HEADER}..AAAA",
        f"{HEADER}.{CLAIMS}.A",
        f"{HEADER}.{CLAIMS}.AB",  # stray bits: AA is how this byte is spelled
        f"{HEADER}.{CLAIMS}.AA+/",
        f"{segment([])}.{CLAIMS}.AAAA",
        f"{HEADER}.{segment([1])}.AAAA",
        f"{HEADER}.{segment('text')}.AAAA",
        f"{HEADER}.{segment(b'{')}.AAAA",
        f"{HEADER}.{segment(bytes([0xEF, 0xBB, 0xBF]) + b'{}')}.AAAA",
        f"{HEADER}.{segment(bytes([0x22, 0xFF, 0x22]))}.AAAA",
        f"{HEADER}." + segment(b'{"a":"\\ud800"}') + ".AAAA",
        f"{HEADER}." + segment(b'{"aud":"bad","aud":"good"}') + ".AAAA",
        segment(b'{"alg":"none","alg":"ES256"}') + f".{CLAIMS}.AAAA",
        f"{HEADER}." + segment(b'{"exp":NaN}') + ".AAAA",
        f"{HEADER}." + segment(b'{"exp":1e400}') + ".AAAA",
        f"{HEADER}." + segment(b'{"a":' * 17 + b"1" + b"}" * 17) + ".AAAA",
        "A" * (MAX_BYTES + 1),
        *(segment({"alg": "ES256", name: value}) + f".{CLAIMS}.AAAA"
          for name, value in (("crit", ["exp"]), ("crit", []), ("b64", False), ("b64", True), ("zip", "DEF"))),
    ],
)  # fmt: skip
def test_what_is_not_in_the_one_strict_form_is_refused(raw: str) -> None:
    with pytest.raises(InvalidToken):
        parse_compact(raw)


@each("kid", [5, None, {}, "", "k" * 257])
def test_a_kid_is_a_short_string(kid: Any) -> None:
    token = parse_compact(segment({"alg": "ES256", "kid": kid}) + f".{CLAIMS}.AAAA")
    with pytest.raises(InvalidToken):
        _ = token.kid


@given(st.text(alphabet=st.characters(max_codepoint=0x2FF), max_size=300))
@example("base")  # a word that stands in one of our own reasons
def test_no_text_does_more_than_be_refused(raw: str) -> None:
    mark = "quoted"  # is in no reason of ours: where it shows, the text was repeated
    for text in (raw, mark + raw):
        with pytest.raises(InvalidToken) as caught:
            parse_compact(text)
        assert mark not in str(caught.value)


@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(min_size=1, max_size=60))
def test_no_segments_do_more_than_be_refused(header: bytes, claims: bytes, signature: bytes) -> None:
    raw = f"{segment(header)}.{segment(claims)}.{segment(signature)}"
    try:
        token = parse_compact(raw)
    except InvalidToken:
        return
    assert json.loads(header) == token.header
