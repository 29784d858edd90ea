"""Addresses with tokens in them are shown without."""

from __future__ import annotations

from gateway.text import masked_url, secrets_in
from tests.each import each
from tests.program import run, settings

KEY = "7f9a2c41d8e04b3f9c6a5b1e2d3f4a5b"
JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0In0.c2ln"
MASKED = {
    f"https://mainnet.example.org/v3/{KEY}": "https://mainnet.example.org/v3/…",
    f"https://node.example.org/{KEY}/rpc?x=1": "https://node.example.org/…/rpc?x=1",
    "https://node.example.org/v2/aBcD3fGhIjKl-mNoP_qRsT9vWxYz1": "https://node.example.org/v2/…",
    "http://h/rpc?apikey=short&db=demo": "http://h/rpc?apikey=…&db=demo",
    f"http://h/rpc?who={KEY}": "http://h/rpc?who=…",
    "http://h/rpc?token=a%2Fb+c": "http://h/rpc?token=…",
    "http://h/rpc?token=a%2fb%2bc": "http://h/rpc?token=…",
    "http://h/rpc?key=abc&token=abcdefgh": "http://h/rpc?key=…&token=…",
    "http://h/rpc?key=r": "http://h/rpc?key=…",
    "http://h/rpc?pwd=hunter22": "http://h/rpc?pwd=…",
    f"http://h/{JWT}/rpc?t={JWT}": "http://h/…/rpc?t=…",
    "http://h/bot123456789:AAF9a8b7c6d5e4f3g2h1i0jk/rpc": "http://h/…/rpc",
    f"http://h/x%2B{KEY}": "http://h/…",
}
SHOWN = [
    "http://127.0.0.1:8000/jsonrpc",
    "http://h/api/v1/json-rpc-services-of-the-house",
    "http://h/20261121000000000000001",
    "http://h/rpc?db=demo&lang=en",
    "http://h/demo/",
    "http://h/openrpc.2026.11.21-of-the-house.json",
    "http://h/rpc?token=&token",
]


@each(("url", "shown"), MASKED.items())
def test_what_may_be_a_token_is_masked(url: str, shown: str) -> None:
    assert masked_url(url) == shown


@each("url", SHOWN)
def test_other_addresses_are_shown_as_they_are(url: str) -> None:
    assert masked_url(url) == url
    assert secrets_in(url) == ()


def test_a_token_is_known_as_it_stands_in_the_address_and_decoded() -> None:
    assert secrets_in("http://h/rpc?token=a%2fb%2bc") == ("a/b+c", "a%2fb%2bc")


async def test_check_shows_no_token_of_the_backends_address() -> None:
    ran = await run("check", *settings(f"http://127.0.0.1:9/v3/{KEY}"))
    assert ran.code == 3
    assert "http://127.0.0.1:9/v3/… gave no listing" in ran.said
    assert KEY not in ran.said
