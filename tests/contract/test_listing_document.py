"""A listing survives the way to another replica, in every dialect."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from gateway import jsonrpc
from gateway.discovery.shared_listing import decode_listing, encode_listing
from gateway.listing.dialect import NoListing
from gateway.listing.reader import probe_dialects
from gateway.model import Listing, MessageForm, Version
from tests.contract.test_dialects import CASES, Answers
from tests.each import each


def answers_of(case: Path) -> Answers:
    return Answers(jsonrpc.decode(case.read_bytes()))


@each("case", CASES, ids=[f"{case.parent.name}/{case.stem}" for case in CASES])
async def test_a_listing_is_the_same_on_the_other_side(case: Path) -> None:
    try:
        listing = await probe_dialects(answers_of(case))
    except NoListing:
        return
    read = decode_listing(encode_listing(listing))
    assert read == listing
    assert len({id(method.root) for method in read.methods}) == len({id(method.root) for method in listing.methods})


@each("form", [MessageForm(), MessageForm(Version.ONE, always_params=True), MessageForm(integer_ids=True)])
def test_the_form_of_messages_is_too(form: MessageForm) -> None:
    listing = Listing("plain", (), form=form)
    assert decode_listing(encode_listing(listing)) == listing


@each(
    "document",
    [
        b"",
        b"no zlib",
        zlib.compress(b""),
        zlib.compress(b"[]"),
        zlib.compress(b"{}"),
        zlib.compress(b'[{"dialect": "plain", "methods": [{}]}, [], []]'),
        zlib.compress(b'[{"dialect": "plain", "methods": 1}, [], []]'),
        zlib.compress(b'[{"dialect": "plain", "methods": [{"name": "a", "dialect": "plain"}]}, [], []]'),
        zlib.compress(b'[{"dialect": "plain", "methods": [{"name": "a", "dialect": "plain"}]}, [], [0]]'),
        encode_listing(Listing("plain", ()))[:-9],
        zlib.compress(b" " * 70 * 1024**2, 1),
    ],
)
def test_what_is_no_listing_is_a_fault(document: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011, of many libraries
        decode_listing(document)
