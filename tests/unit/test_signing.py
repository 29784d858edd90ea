"""Signed tokens: ours verify, all others are None."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.signing import MIN_SECRET_BYTES, SEAL_BYTES, Seal, SecretError, Signer, SigningKeys, read_secrets
from tests.each import each
from tests.manual_clock import ManualClock

OLD, NEW = b"o" * 32, b"n" * 32
TTL = 600.0


def signer(
    *secrets: bytes, purpose: str = "cursor", resource: str = "https://gw/mcp", clock: ManualClock | None = None
) -> Signer:
    return Signer(SigningKeys(secrets, resource), purpose, TTL, clock or ManualClock(1_800_000_000.0))


SIGNER = signer(OLD)


@each("text", ["", "node.list", "ünïcode 😀", "x" * 1000])
def test_what_was_signed_comes_back(text: str) -> None:
    token = SIGNER.sign(text)
    assert SIGNER.verify(token) == text
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def test_a_token_with_any_character_changed_is_refused() -> None:
    token = SIGNER.sign("node.list")
    for position, character in enumerate(token):
        other = "A" if character != "A" else "B"
        assert SIGNER.verify(token[:position] + other + token[position + 1 :]) is None


@each("end", range(44))
def test_a_truncated_token_is_refused(end: int) -> None:
    token = SIGNER.sign("node.list")
    assert len(token) == 44
    assert SIGNER.verify(token[:end]) is None


def test_a_token_has_one_spelling() -> None:
    token = SIGNER.sign("node.list1")
    unused_bits = token[:-1] + chr(ord(token[-1]) + 1)
    for variant in (
        token + "=",
        token + "==",
        token + "A",
        " " + token,
        token + "\n",
        f"{token[:9]}\n{token[9:]}",
        token[:9] + "!" + token[9:],
        token.replace("-", "+").replace("_", "/") + "=",
        unused_bits,
    ):
        assert SIGNER.verify(variant) is None


@each("token", ["", "a", "é", "\ud800", "====", "AAAA" * 1000, "null", "../.."])
def test_what_is_no_token_is_refused_without_an_exception(token: str) -> None:
    assert SIGNER.verify(token) is None


def test_another_secret_purpose_or_resource_does_not_verify() -> None:
    token = SIGNER.sign("x")
    assert signer(OLD).verify(token) == "x"
    assert signer(NEW).verify(token) is None
    assert signer(OLD, purpose="session").verify(token) is None
    assert signer(OLD, resource="https://gw/crm/mcp").verify(token) is None


def test_keys_do_not_show_the_secrets() -> None:
    assert repr(SigningKeys((OLD, NEW), "https://gw/mcp")) == "SigningKeys(resource='https://gw/mcp')"


def test_a_token_is_good_for_its_time_and_no_longer() -> None:
    clock = ManualClock(1_800_000_000.0)
    timed = signer(OLD, clock=clock)
    token = timed.sign("x")
    clock.now += TTL - 1
    assert timed.verify(token) == "x"
    clock.now += 1
    assert timed.verify(token) is None


def test_a_token_of_a_replica_whose_clock_is_ahead_is_good() -> None:
    ahead = ManualClock(1_800_000_000.0)
    ahead.now += 30
    assert SIGNER.verify(signer(OLD, clock=ahead).sign("x")) == "x"


def test_a_token_of_a_clock_that_was_years_ahead_is_none() -> None:
    ahead = ManualClock(1_800_000_000.0)
    ahead.now += 10 * 365 * 86400
    assert SIGNER.verify(signer(OLD, clock=ahead).sign("x")) is None


@each("other", [(), ("",), ("a",), ("a", "b", ""), ("ab",), ("", "ab"), ("a", "c"), ("b", "a"), ("ab", "")])
def test_a_token_is_its_owners_alone_and_does_not_show_who_that_is(other: tuple[str, ...]) -> None:
    token = SIGNER.sign("x", "a", "b")
    assert SIGNER.verify(token, "a", "b") == "x"
    assert SIGNER.verify(token, *other) is None
    assert len(token) == len(SIGNER.sign("x"))


def test_while_rotating_the_first_secret_signs_and_all_verify() -> None:
    rotating = signer(NEW, OLD)
    assert rotating.verify(SIGNER.sign("before")) == "before"
    assert signer(NEW).verify(rotating.sign("after")) == "after"
    assert SIGNER.verify(rotating.sign("after")) is None


def test_without_a_file_the_secret_is_random() -> None:
    assert read_secrets(None) != read_secrets(None)
    assert len(read_secrets(None)[0]) == 32


def test_a_file_has_a_secret_on_each_line(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(NEW + b"\r\n\n  " + OLD + b" \n")
    assert read_secrets(str(file)) == (NEW, OLD)


@each("content", [b"", b"\n\n", b"x" * (MIN_SECRET_BYTES - 1), OLD + b"\nshort"])
def test_a_file_with_a_weak_secret_is_refused_without_showing_it(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "secret"
    file.write_bytes(content)
    with pytest.raises(SecretError, match="at least 16 bytes") as caught:
        read_secrets(str(file))
    assert "short" not in str(caught.value)
    assert "xxx" not in str(caught.value)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match=r"absent: No such file"):
        read_secrets(str(tmp_path / "absent"))


def seal(*secrets: bytes, purpose: str = "store", resource: str = "https://gw/mcp") -> Seal:
    return Seal(SigningKeys(secrets, resource), purpose)


@each("content", [b"", b"a person's answer", bytes(range(256)) * 100])
def test_what_was_sealed_opens_where_it_belongs_and_shows_nothing_before(content: bytes) -> None:
    sealed = seal(OLD).close(content, "here")
    assert len(sealed) == len(content) + SEAL_BYTES
    assert not content or content not in sealed
    assert seal(OLD).open(sealed, "here") == content
    assert seal(OLD).open(sealed, "elsewhere") is None


def test_no_two_seals_of_one_content_are_alike() -> None:
    assert len({seal(OLD).close(b"yes", "here") for _ in range(100)}) == 100


def test_a_seal_with_any_byte_changed_or_lost_does_not_open() -> None:
    sealed = seal(OLD).close(b"yes", "here")
    for position in range(len(sealed)):
        assert seal(OLD).open(sealed[:position], "here") is None
        changed = bytes([*sealed[:position], sealed[position] ^ 1, *sealed[position + 1 :]])
        assert seal(OLD).open(changed, "here") is None


@each(
    "other",
    (seal(NEW), seal(OLD, purpose="another"), seal(OLD, resource="https://other/mcp")),
)
def test_who_has_another_secret_purpose_or_resource_opens_nothing(other: Seal) -> None:
    assert other.open(seal(OLD).close(b"yes", "here"), "here") is None


def test_a_replaced_secret_opens_what_the_old_one_sealed() -> None:
    assert seal(NEW, OLD).open(seal(OLD).close(b"yes", "here"), "here") == b"yes"
    assert seal(OLD).open(seal(NEW, OLD).close(b"yes", "here"), "here") is None
