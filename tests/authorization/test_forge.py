"""What the forge makes is sound where it says so, and broken in the one way that it says."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.authorization import forge
from tests.authorization.answers import HUGE, Answer, Kind
from tests.authorization.forge import OMIT, claims_of, compact, dpop_proof, header_of
from tests.authorization.issuer import RESOURCE, ForgedIssuer, certificate
from tests.authorization.keys import (
    Key,
    b64,
    ec_key,
    ed_key,
    exponent_one_signature,
    octets,
    roca_key,
    rsa_key,
)
from tests.each import each


async def fetch(url: str, **options: Any) -> tuple[int, bytes]:
    """Status and body, without following redirects."""
    async with aiohttp.ClientSession() as session, session.get(url, allow_redirects=False, **options) as response:
        return response.status, await response.read()


async def form(url: str, **fields: str) -> Any:
    async with aiohttp.ClientSession() as session, session.post(url, data=fields) as response:
        return await response.json()


async def test_a_token_is_sound_unless_told_otherwise(issuer: ForgedIssuer) -> None:
    _, document = await fetch(issuer.jwks_uri)
    token = issuer.sign(scope="read")
    key = jwt.PyJWKSet.from_json(document.decode())[header_of(token)["kid"]]
    required = ["iss", "sub", "aud", "exp", "iat", "jti", "client_id"]
    claims = jwt.decode(token, key, ["ES256"], audience=RESOURCE, issuer=issuer.issuer, options={"require": required})
    assert claims["scope"] == "read"
    assert header_of(token)["typ"] == "at+jwt"


@each(
    "make",
    {
        "ES256": ec_key,
        "ES384": lambda: ec_key(alg="ES384"),
        "ES512": lambda: ec_key(alg="ES512"),
        "EdDSA": ed_key,
        "RS256": rsa_key,
        "PS512": lambda: rsa_key(alg="PS512"),
        "HS256": octets,
        "roca": roca_key,
    },
)
def test_each_kind_of_key_signs_what_its_jwk_verifies(make: Callable[[], Key]) -> None:
    key = make()
    token = compact({"alg": key.alg}, {"sub": "alice"}, key)
    assert jwt.decode(token, jwt.PyJWK(key.jwk), [key.alg]) == {"sub": "alice"}
    private = jwt.PyJWK(key.private_jwk)
    assert jwt.decode(jwt.encode({"sub": "bob"}, private), jwt.PyJWK(key.jwk), [key.alg]) == {"sub": "bob"}


def test_a_published_key_is_not_private() -> None:
    for key in (ec_key(), ed_key(), rsa_key()):
        assert not {"d", "p", "q"} & set(key.jwk)
        assert "d" in key.private_jwk


def test_the_thumbprint_is_that_of_rfc_7638() -> None:
    key = ec_key()
    ordered = '{{"crv":"{crv}","kty":"{kty}","x":"{x}","y":"{y}"}}'.format(**key.jwk)
    assert key.thumbprint == b64(hashlib.sha256(ordered.encode()).digest())


def test_claims_are_changed_and_left_out(issuer: ForgedIssuer) -> None:
    claims = claims_of(issuer.sign(aud=["x", 5], jti=OMIT, exp="soon"))
    assert (claims["aud"], claims["exp"]) == (["x", 5], "soon")
    assert "jti" not in claims
    header = header_of(issuer.sign(header={"kid": OMIT, "crit": []}))
    assert header == {"typ": "at+jwt", "alg": "ES256", "crit": []}


def test_parts_are_taken_byte_by_byte(issuer: ForgedIssuer) -> None:
    token = issuer.sign(b"\xef\xbb\xbf{}", header=b'{"alg":"ES256","alg":"none"}')
    assert token.startswith(b64(b'{"alg":"ES256","alg":"none"}') + "." + b64(b"\xef\xbb\xbf{}") + ".")
    doubled = forge.twice({"aud": "good", "sub": "alice"}, "aud", "bad")
    assert doubled == b'{"aud":"bad","aud":"good","sub":"alice"}'
    assert forge.changed("a.b.c", 2, lambda segment: segment + "=") == "a.b.c="
    assert forge.encoded({"exp": float("inf"), "sub": "\ud800"}) == b'{"exp":Infinity,"sub":"\xed\xa0\x80"}'


def test_a_signature_may_be_missing_confused_psychic_or_by_another_algorithm() -> None:
    elliptic, big = ec_key(), rsa_key()
    assert forge.unsecured({"sub": "a"}, "NoNe").endswith(".")
    assert jwt.decode(forge.unsecured({"sub": "a"}), options={"verify_signature": False}) == {"sub": "a"}
    signed, _, signature = forge.confused({"sub": "a"}, big).rpartition(".")
    assert signature == b64(octets(big.public_pem).sign(signed.encode()))
    assert forge.psychic({}, elliptic).endswith("." + b64(bytes(64)))
    curve = ec_key(alg="ES384")
    assert len(jwt.utils.base64url_decode(compact({"alg": "ES256"}, {}, curve, alg="ES256").split(".")[2])) == 96
    assert jwt.decode(compact({"alg": "RS512"}, {}, big, alg="RS512"), big.public_pem, ["RS512"]) == {}


def test_the_signature_for_exponent_one_is_what_an_honest_one_is_verified_against() -> None:
    key = rsa_key()
    assert isinstance(key.secret, rsa.RSAPrivateKey)
    public = key.secret.public_key().public_numbers()
    honest = int.from_bytes(key.sign(b"header.claims"))
    assert pow(honest, public.e, public.n) == int.from_bytes(exponent_one_signature(b"header.claims"))


def test_weak_keys_are_weak() -> None:
    assert len(jwt.utils.base64url_decode(rsa_key(bits=1024).jwk["n"])) == 128
    modulus = int.from_bytes(jwt.utils.base64url_decode(roca_key().jwk["n"]))
    assert modulus.bit_length() == 2048
    for prime in (11, 13, 17, 19, 37, 53, 61, 71, 73, 79, 97, 103):
        assert modulus % prime in {pow(65537, power, prime) for power in range(prime)}


def test_an_encrypted_token_has_five_parts() -> None:
    token = forge.encrypted({"sub": "alice"}, rsa_key())
    assert len(token.split(".")) == 5
    assert header_of(token)["enc"] == "A256GCM"


def test_a_proof_is_bound_to_key_request_and_token() -> None:
    key = ec_key()
    proof = dpop_proof(key, "POST", "https://gw/mcp", "tok", nonce="n")
    header = header_of(proof)
    assert (header["typ"], header["jwk"]["crv"]) == ("dpop+jwt", "P-256")
    assert set(header["jwk"]) == {"kty", "crv", "x", "y"}
    claims = jwt.decode(proof, jwt.PyJWK(header["jwk"], "ES256"), ["ES256"])
    assert (claims["htm"], claims["htu"], claims["nonce"]) == ("POST", "https://gw/mcp", "n")
    assert claims["ath"] == b64(hashlib.sha256(b"tok").digest())
    assert claims["jti"] != claims_of(dpop_proof(key, "POST", "https://gw/mcp"))["jti"]


def test_a_proof_is_broken_as_told() -> None:
    key, other = ec_key(), ec_key()
    proof = dpop_proof(key, "GET", "http://x", header={"typ": "JWT", "jwk": key.private_jwk}, iat=0, jti=OMIT)
    assert (header_of(proof)["typ"], claims_of(proof)["iat"]) == ("JWT", 0)
    assert "d" in header_of(proof)["jwk"]
    assert "jti" not in claims_of(proof)
    stolen = dpop_proof(key, "GET", "http://x", signed_by=other)
    with pytest.raises(jwt.InvalidSignatureError):
        jwt.decode(stolen, jwt.PyJWK(key.jwk), ["ES256"])


async def test_the_metadata_are_at_each_place_and_requests_are_remembered() -> None:
    async with ForgedIssuer(path="/realms/a") as issuer:
        origin = issuer.issuer.removesuffix("/realms/a")
        for path in (
            "/.well-known/oauth-authorization-server/realms/a",
            "/.well-known/openid-configuration/realms/a",
            "/realms/a/.well-known/openid-configuration",
        ):
            status, body = await fetch(origin + path)
            assert status == 200
            assert json.loads(body)["issuer"] == issuer.issuer
        issuer.metadata_places = issuer.metadata_places[2:]
        assert (await fetch(f"{origin}/.well-known/openid-configuration/realms/a"))[0] == 404
        assert (await fetch(f"{origin}/elsewhere", headers={"X-Sent": "yes"}))[0] == 404
        assert issuer.count() == 5
        assert issuer.count("metadata") == 1
        assert issuer.fetches[-1].path == "/elsewhere"
        assert issuer.fetches[-1].headers["x-sent"] == "yes"


async def test_it_introspects_as_told(issuer: ForgedIssuer) -> None:
    issuer.introspections["tok"] = {"active": True, "sub": "alice"}
    assert await form(issuer.url("introspection"), token="tok") == {"active": True, "sub": "alice"}
    assert await form(issuer.url("introspection"), token="other") == {"active": False}
    assert issuer.count("introspection") == 2


async def test_its_keys_rotate(issuer: ForgedIssuer) -> None:
    issuer.rotate()
    assert header_of(issuer.sign())["kid"] == "k2"
    assert [key["kid"] for key in json.loads((await fetch(issuer.jwks_uri))[1])["keys"]] == ["k2", "k1"]
    issuer.retire()
    issuer.publish(*issuer.keys, {"kty": "oct", "k": "AAAA"})
    assert [key.get("kid") for key in json.loads((await fetch(issuer.jwks_uri))[1])["keys"]] == ["k2", None]


@each(
    ("kind", "expected"),
    [("html", b"<!doctype"), ("list", b"[]"), ("keys-object", b'{"keys":{}}'), ("empty", b'{"keys":[]}')],
)
async def test_a_disturbed_document_is_something_else(issuer: ForgedIssuer, kind: Kind, expected: bytes) -> None:
    issuer.disturb("jwks", kind)
    status, body = await fetch(issuer.jwks_uri)
    assert status == 200
    assert body.startswith(expected)
    issuer.restore()
    assert json.loads((await fetch(issuer.jwks_uri))[1]) == issuer.jwks


async def test_a_document_is_huge_a_bomb_or_cut(issuer: ForgedIssuer) -> None:
    # What a client without limits makes of them is the genuine document.
    issuer.disturb("jwks", "huge")
    _, body = await fetch(issuer.jwks_uri)
    assert len(body) > HUGE
    assert json.loads(body[HUGE:]) == issuer.jwks
    issuer.disturb("jwks", "bomb")
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.get(issuer.jwks_uri) as response,
    ):
        squeezed = await response.read()
    assert len(squeezed) < HUGE // 100
    assert len(gzip.decompress(squeezed)) > HUGE
    issuer.disturb("jwks", "cut")
    with pytest.raises(aiohttp.ClientPayloadError):
        await fetch(issuer.jwks_uri)


async def test_a_redirect_leads_to_the_genuine_document(issuer: ForgedIssuer) -> None:
    issuer.disturb("jwks", "redirect")
    async with aiohttp.ClientSession() as session, session.get(issuer.jwks_uri) as response:
        assert await response.json() == issuer.jwks
    assert (issuer.count("jwks"), issuer.count("/moved/jwks")) == (1, 1)
    issuer.disturb("jwks", Answer(302, {"Location": "http://127.0.0.1:9/"}))
    assert (await fetch(issuer.jwks_uri))[0] == 302


async def test_a_request_is_held_until_the_disturbance_ends(issuer: ForgedIssuer) -> None:
    issuer.disturb("metadata", "hold")
    fetching = asyncio.ensure_future(fetch(issuer.url("metadata")))
    await issuer.held("metadata")
    assert not fetching.done()
    issuer.restore()
    assert json.loads((await fetching)[1])["issuer"] == issuer.issuer


async def test_a_connection_is_reset(issuer: ForgedIssuer) -> None:
    issuer.disturb("jwks", "reset")
    with pytest.raises(aiohttp.ClientConnectionError):
        await fetch(issuer.jwks_uri)
    # This client asks once more by itself.
    assert issuer.count("jwks") == 2


async def test_an_https_issuer_is_trusted_by_its_own_authority_alone(tmp_path: Path) -> None:
    shown = certificate(tmp_path)
    async with ForgedIssuer(tls=shown) as issuer:
        assert issuer.issuer.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=shown.ca_file)
        assert (await fetch(issuer.jwks_uri, ssl=trusting))[0] == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await fetch(issuer.jwks_uri)


@each(("name", "expired"), [("127.0.0.1", True), ("other.example", False)])
async def test_an_https_issuer_may_show_a_bad_certificate(tmp_path: Path, name: str, expired: bool) -> None:
    shown = certificate(tmp_path, name, expired=expired)
    trusting = ssl.create_default_context(cafile=shown.ca_file)
    async with ForgedIssuer(tls=shown) as issuer:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await fetch(issuer.jwks_uri, ssl=trusting)
        assert issuer.count() == 0
