"""The keys of one issuer: when they are fetched, and what a bad answer changes (security.md JWKS-01 to JWKS-07)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from gateway.auth.compact import InvalidToken, Undecidable
from gateway.auth.jwks import COOLDOWN, MAX_STALE, IssuerKeys
from gateway.http_client.response import Answer, ConnectFailed
from gateway.settings import Issuer
from tests.each import each
from tests.manual_clock import ManualClock
from tests.tables import each_row

ISSUER = "https://login.example.com"
META = f"{ISSUER}/.well-known/oauth-authorization-server"
OPENID = f"{ISSUER}/.well-known/openid-configuration"
JWKS = f"{ISSUER}/keys"


def jwk(kid: str) -> dict[str, Any]:
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    return {**ECAlgorithm.to_jwk(public, as_dict=True), "kid": kid, "alg": "ES256", "use": "sig"}


class Web:
    """What the issuer answers, by address; ``fetches`` are the addresses asked for."""

    def __init__(self, *kids: str) -> None:
        self.fetches: list[str] = []
        self.gate: asyncio.Event | None = None
        self.documents: dict[str, Any] = {META: {"issuer": ISSUER, "jwks_uri": JWKS}}
        self.headers: dict[str, str] = {}
        self.members = {kid: jwk(kid) for kid in kids}
        self.offer(*kids)

    def offer(self, *kids: str) -> None:
        for kid in kids:
            self.members.setdefault(kid, jwk(kid))
        self.documents[JWKS] = {"keys": [self.members[kid] for kid in kids]}

    async def request(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], *, timeout: float, max_bytes: int
    ) -> Answer:
        self.fetches.append(url)
        if self.gate is not None:
            await self.gate.wait()
        document = self.documents.get(url)
        if isinstance(document, Exception):
            raise document
        if isinstance(document, bytes):
            return Answer(200, {"Content-Type": "text/html", **self.headers}, document)
        if document is None:
            return Answer(404, {"Content-Type": "text/html"}, b"")
        return Answer(200, {"Content-Type": "application/json", **self.headers}, json.dumps(document).encode())

    @property
    def key_fetches(self) -> int:
        return self.fetches.count(JWKS)


def keys_of(web: Web, clock: ManualClock | None = None, **knobs: Any) -> IssuerKeys:
    return IssuerKeys(Issuer(issuer=ISSUER, **knobs), web, clock or ManualClock())


async def kids(keys: IssuerKeys, kid: str) -> list[str | None]:
    return [key.kid for key in await keys.candidates(kid, "ES256")]


async def test_the_first_token_fetches_the_metadata_and_the_keys_once() -> None:
    web = Web("k1")
    keys = keys_of(web)
    assert await kids(keys, "k1") == ["k1"]
    assert await kids(keys, "k1") == ["k1"]
    assert web.fetches == [META, JWKS]


async def test_a_pinned_address_of_the_keys_needs_no_metadata() -> None:
    web = Web("k1")
    await kids(keys_of(web, metadata={"jwks_uri": JWKS}), "k1")
    assert web.fetches == [JWKS]


async def test_openid_discovery_is_tried_after_rfc_8414() -> None:
    web = Web("k1")
    web.documents[OPENID] = web.documents.pop(META)
    await kids(keys_of(web), "k1")
    assert web.fetches == [META, OPENID, JWKS]


async def test_a_key_that_appeared_is_accepted_on_first_use() -> None:
    web, clock = Web("k1"), ManualClock()
    keys = keys_of(web, clock)
    await kids(keys, "k1")
    web.offer("k1", "k2")
    assert await kids(keys, "k2") == ["k2"]
    assert web.key_fetches == 2


async def test_unknown_kids_cost_one_fetch_per_cooldown() -> None:
    web, clock = Web("k1"), ManualClock()
    keys = keys_of(web, clock)
    await kids(keys, "k1")
    for number in range(100):
        with pytest.raises(InvalidToken):
            await keys.candidates(f"random-{number}", "ES256")
    assert web.key_fetches == 2
    clock.now += COOLDOWN
    with pytest.raises(InvalidToken):
        await keys.candidates("random", "ES256")
    assert web.key_fetches == 3


async def test_many_unknown_kids_at_once_share_one_fetch() -> None:
    web = Web("k1")
    keys = keys_of(web)
    await kids(keys, "k1")
    web.gate = asyncio.Event()
    web.offer("k1", "k2")
    waiting = [asyncio.create_task(kids(keys, "k2")) for _ in range(50)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    web.gate.set()
    assert await asyncio.gather(*waiting) == [["k2"]] * 50
    assert web.key_fetches == 2


async def test_one_who_hangs_up_does_not_end_the_fetch_for_the_others() -> None:
    web = Web("k1")
    web.gate = asyncio.Event()
    keys = keys_of(web)
    first, second = (asyncio.create_task(kids(keys, "k1")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    web.gate.set()
    assert await second == ["k1"]
    assert web.key_fetches == 1


@each(
    "answer",
    {
        "html": b"<html>",
        "list": [],
        "object": {"keys": {}},
        "empty": {"keys": []},
        "symmetric": {"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "k1"}]},
        "too many": {"keys": [{"kty": "EC"}] * 101},
        "down": ConnectFailed("connection refused"),
    },
)
async def test_an_absurd_answer_replaces_nothing(answer: Any) -> None:
    web, clock = Web("k1"), ManualClock()
    keys = keys_of(web, clock)
    await kids(keys, "k1")
    generation = keys.generation
    web.documents[JWKS] = answer
    await keys.refresh()
    assert keys.failure
    assert await kids(keys, "k1") == ["k1"]
    assert keys.generation == generation


async def test_a_bad_key_among_good_ones_is_left_out_alone() -> None:
    web = Web("k1")
    web.documents[JWKS]["keys"].append({**web.members["k1"], "kid": "k2", "use": "enc"})
    keys = keys_of(web)
    assert await kids(keys, "k1") == ["k1"]
    assert keys.keys is not None
    assert keys.keys.ignored == ("k2: its use is not sig",)


async def test_known_keys_serve_while_the_issuer_is_down_but_not_for_ever() -> None:
    web, clock = Web("k1"), ManualClock()
    keys = keys_of(web, clock)
    await kids(keys, "k1")
    web.documents.clear()
    clock.now += MAX_STALE
    await keys.refresh()
    assert await kids(keys, "k1") == ["k1"]
    assert "serving the known keys" in keys.problem.cause
    clock.now += 1
    with pytest.raises(Undecidable):
        await keys.candidates("k1", "ES256")
    await keys.refresh()
    assert "serving nothing: they are too old" in keys.problem.cause


async def test_without_keys_nobody_can_tell_and_the_issuer_is_not_hammered() -> None:
    web, clock = Web("k1"), ManualClock()
    documents, web.documents = web.documents, {}
    keys = keys_of(web, clock)
    for _ in range(20):
        with pytest.raises(Undecidable) as caught:
            await keys.candidates("k1", "ES256")
        assert caught.value.retry_after >= 1
    assert web.fetches == [META, OPENID]
    web.documents = documents
    clock.now += 1
    assert await kids(keys, "k1") == ["k1"]


async def test_a_removed_key_is_refused_after_the_refresh_and_what_it_verified_does_not_hold() -> None:
    web = Web("k1", "k2")
    keys = keys_of(web)
    await kids(keys, "k1")
    generation = keys.generation
    web.offer("k2")
    await keys.refresh()
    assert keys.generation != generation
    with pytest.raises(InvalidToken):
        await keys.candidates("k1", "ES256")


@each(
    ("said", "kept"),
    [(None, 300), ("max-age=1", 60), ("max-age=600", 600), ("public, max-age=999999999", 3600), ("no-store", 300)],
)
async def test_max_age_is_honored_within_reason(said: str | None, kept: float) -> None:
    web, clock = Web("k1"), ManualClock()
    if said:
        web.headers = {"Cache-Control": said}
    keys = keys_of(web, clock)
    await keys.refresh()
    assert keys._refresh_at - clock.now == kept


@each("named", [ISSUER, f"{ISSUER}/"])
async def test_an_issuer_is_published_as_its_own_metadata_name_it(named: str) -> None:
    """Drupal: iss in tokens and issuer in the metadata differ by a slash, and clients compare the metadata's."""
    web = Web("k1")
    web.documents[META] = {"issuer": named, "jwks_uri": JWKS}
    keys = keys_of(web)
    assert keys.published == ISSUER, "as configured, until the metadata were read"
    await keys.refresh()
    assert (keys.published, keys.issuer.issuer) == (named, ISSUER)


@each(("named", "published"), [(f"{ISSUER}/", f"{ISSUER}/"), ("https://other.example.com", ISSUER), (None, ISSUER)])
async def test_beside_a_configured_jwks_uri_the_metadata_give_the_name_alone(named: str | None, published: str) -> None:
    web = Web("k1")
    web.documents[META] = {"issuer": named, "jwks_uri": "https://login.example.com/others"} if named else []
    keys = keys_of(web, metadata={"jwks_uri": JWKS})
    await keys.refresh()
    assert keys.published == published
    assert keys.keys is not None
    assert web.key_fetches == 1


@each_row
async def test_metadata_of_another_issuer_or_with_an_unsafe_address_give_no_keys(metadata: Any) -> None:
    web = Web("k1")
    web.documents[META] = metadata
    with pytest.raises(Undecidable):
        await keys_of(web).candidates("k1", "ES256")
    assert web.key_fetches == 0
