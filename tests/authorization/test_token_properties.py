"""A token that was changed in any way is refused, never served, and never a fault of ours."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from tests.authorization import forge
from tests.authorization.keys import b64, ec_key, rsa_key
from tests.authorization.rows import bearer, untouched, warm
from tests.authorization.stand import Stand, stand

STRANGER = ec_key("k1")
RSA_STRANGER = rsa_key("k1")
Mutation = Callable[[str], str]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    [
        "alg",
        "typ",
        "kid",
        "crit",
        "jwk",
        "jku",
        "iss",
        "sub",
        "aud",
        "exp",
        "nbf",
        "iat",
        "jti",
        "client_id",
        "cnf",
        "x",
    ]
)


@pytest.fixture(scope="module")
def stage() -> Iterator[tuple[asyncio.Runner, Stand]]:
    with asyncio.Runner() as runner:
        standing = stand("backend.listing.identity=shared")
        it = runner.run(standing.__aenter__())
        runner.run(warm(it))
        yield runner, it
        runner.run(standing.__aexit__(None, None, None))


def replaced(position: int, character: str) -> Mutation:
    return lambda token: (lambda at: token[:at] + character + token[at + 1 :])(position % len(token))


def removed(position: int, count: int) -> Mutation:
    return lambda token: (lambda at: token[:at] + token[at + count :])(position % len(token))


def inserted(position: int, text: str) -> Mutation:
    return lambda token: (lambda at: token[:at] + text + token[at:])(position % len(token))


def repeated(times: int) -> Mutation:
    return lambda token: ".".join([token] * times)


def shuffled(order: tuple[int, ...]) -> Mutation:
    return lambda token: ".".join(token.split(".")[index] for index in order)


def edited(segment: int, name: str, value: Any, key: Any = None) -> Mutation:
    """A member of the header or the claims is another; signed as before, or by a stranger."""

    def mutate(token: str) -> str:
        parts = token.split(".")
        members = json.loads(urlsafe_b64decode(parts[segment] + "=="))
        members[name] = value
        parts[segment] = b64(forge.encoded(members))
        if key is not None:
            parts[2] = b64(key.sign(".".join(parts[:2]).encode()))
        return ".".join(parts)

    return mutate


TEXT = st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=4)
MUTATIONS = st.one_of(
    st.builds(replaced, st.integers(0, 5000), TEXT.map(lambda text: text[0])),
    st.builds(removed, st.integers(0, 5000), st.integers(1, 40)),
    st.builds(inserted, st.integers(0, 5000), TEXT),
    st.builds(repeated, st.integers(2, 4)),
    st.builds(shuffled, st.permutations((0, 1, 2)).map(tuple)),
    st.builds(edited, st.sampled_from((0, 1)), NAMES, JSON),
    st.builds(edited, st.sampled_from((0, 1)), NAMES, JSON, st.sampled_from((STRANGER, RSA_STRANGER))),
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mutate=MUTATIONS)
@example(mutate=edited(0, "alg", "none"))
@example(mutate=edited(1, "sub", "root"))
@example(mutate=edited(1, "exp", 1e308, STRANGER))
def test_a_changed_token_is_refused(stage: tuple[asyncio.Runner, Stand], mutate: Mutation) -> None:
    runner, it = stage
    good = it.issuer.sign()
    try:
        token = mutate(good)
    except (UnicodeEncodeError, ValueError):
        assume(False)
        raise
    assume(token not in (good, ""))
    it.backend.requests.clear()
    answer = runner.run(it.client().send("GET", "/mcp/tools/list", None, bearer(token)))
    assert answer.status in (400, 401), answer
    untouched(it)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=NAMES.filter(lambda name: name not in ("alg", "typ", "kid", "x", "jti", "crit", "jwk", "jku")), value=JSON)
def test_no_claim_of_a_trusted_issuer_makes_a_fault_of_ours(
    stage: tuple[asyncio.Runner, Stand], name: str, value: Any
) -> None:
    runner, it = stage
    try:
        token = it.issuer.sign(**{name: value})
    except (UnicodeEncodeError, ValueError):
        assume(False)
        raise
    assume(len(token) < 7000)
    answer = runner.run(it.client().send("GET", "/mcp/tools/list", None, bearer(token)))
    assert answer.status in (200, 401), answer
