"""How long a caller's token is good."""

from __future__ import annotations

from gateway.model import ANONYMOUS, AccessToken, Caller, Principal

ANN = Principal("https://login.example.com", "ann", "app", frozenset(), 1000.0, AccessToken("secret"))


def test_a_token_is_valid_until_the_moment_it_expires() -> None:
    caller = Caller(principal=ANN)
    assert caller.token_still_valid(999.9)
    assert not caller.token_still_valid(1000.0)


def test_a_caller_without_a_token_has_none_that_expires() -> None:
    assert ANONYMOUS.token_still_valid(1e12)
