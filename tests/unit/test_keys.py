"""Which members of a key set may verify tokens (RFC 7517, RFC 8725 §3.5)."""

from __future__ import annotations

import random
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from gateway.auth.keys import UnusableKey, parse_key, parse_key_set
from tests.authorization.keys import b64
from tests.each import each

RSA = RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, 2048).public_key(), as_dict=True)
EC = ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()).public_key(), as_dict=True)
P384 = ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP384R1()).public_key(), as_dict=True)
K1 = ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256K1()).public_key(), as_dict=True)
ED = OKPAlgorithm.to_jwk(ed25519.Ed25519PrivateKey.generate().public_key(), as_dict=True)


def rsa_jwk(n: int, e: int = 65537) -> dict[str, Any]:
    return RSAAlgorithm.to_jwk(RSAPublicNumbers(e, n).public_key(), as_dict=True)


def broken_modulus() -> int:
    """A number of the shape that the generator of CVE-2017-15361 made: a product of k·M + (65537^a mod M)."""
    primes = [p for p in range(2, 168) if all(p % q for q in range(2, p))]
    primorial = 1
    for prime in primes:
        primorial *= prime
    rng = random.Random(1)
    bits = 1026 - primorial.bit_length()
    factors = [
        (rng.getrandbits(bits) | 1 << (bits - 1)) * primorial + pow(65537, rng.getrandbits(60), primorial)
        for _ in range(2)
    ]
    return factors[0] * factors[1]


@each(
    ("member", "alg"),
    {
        "rsa": (RSA, "RS256"),
        "rsa that names PS256": ({**RSA, "alg": "PS256"}, "PS256"),
        "P-256": (EC, "ES256"),
        "P-384": (P384, "ES384"),
        "Ed25519": (ED, "EdDSA"),
    },
)
def test_a_key_has_the_algorithm_it_names_else_the_usual_one_of_its_type(member: dict[str, Any], alg: str) -> None:
    assert parse_key(member).alg == alg


@each(
    ("member", "reason"),
    [
        ({**EC, "use": "enc"}, "use"),
        ({**EC, "key_ops": ["encrypt"]}, "key_ops"),
        ({**EC, "key_ops": "verify"}, "key_ops"),
        ({"kty": "oct", "k": "c2VjcmV0"}, "asymmetric"),
        *(({**EC, name: "AAAA"}, "private") for name in ("d", "k")),
        *(({**RSA, name: "AAAA"}, "private") for name in ("d", "p", "q", "dp", "dq", "qi")),
        ({**RSA, "oth": []}, "private"),
        ({**ED, "d": None}, "private"),
        ({**EC, "alg": "RS256"}, "alg"),
        ({**EC, "alg": "HS256"}, "alg"),
        ({**EC, "alg": ["ES256"]}, "alg"),
        ({**EC, "kid": 5}, "kid"),
        ({**EC, "x": "AAAA"}, "valid"),
        ({**EC, "y": EC["x"]}, "valid"),
        ({"kty": "EC"}, "valid"),
        ({"kty": "RSA", "n": 5, "e": "AQAB"}, "valid"),
        (K1, "curve"),
        (RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, 1024).public_key(), as_dict=True), "2048"),
        (rsa_jwk(broken_modulus()), "CVE-2017-15361"),
        (rsa_jwk(int(rsa.generate_private_key(65537, 2048).public_key().public_numbers().n), 3), "exponent"),
        *((rsa_jwk(((1 << 2049) // factor | 1) * factor), "small factor") for factor in (2, 3, 751)),
        ("key", "object"),
    ],
)
def test_what_must_not_verify_is_left_out_with_the_reason(member: Any, reason: str) -> None:
    with pytest.raises(UnusableKey, match=reason):
        parse_key(member)


SMALL_ORDER = [
    "0100000000000000000000000000000000000000000000000000000000000000",  # order 1
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",  # order 2
    "0000000000000000000000000000000000000000000000000000000000000000",  # order 4
    "0000000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",  # order 8
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "0100000000000000000000000000000000000000000000000000000000000080",  # the same, written otherwise
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
]


@each("point", SMALL_ORDER)
def test_an_ed25519_point_of_small_order_is_no_key(point: str) -> None:
    with pytest.raises(UnusableKey, match="small order"):
        parse_key({**ED, "x": b64(bytes.fromhex(point))})


def test_other_ed25519_points_are_keys() -> None:
    for _ in range(200):
        public = ed25519.Ed25519PrivateKey.generate().public_key()
        assert parse_key(OKPAlgorithm.to_jwk(public, as_dict=True)).alg == "EdDSA"


def test_a_modulus_that_is_not_of_the_broken_kind_is_not_mistaken_for_it() -> None:
    for _ in range(5):
        parse_key(RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, 2048).public_key(), as_dict=True))


def test_a_token_without_a_kid_needs_the_one_key_that_fits() -> None:
    keys = parse_key_set({"keys": [{**EC, "kid": "a"}, {**RSA, "kid": "b"}]})
    assert [key.kid for key in keys.candidates(None, "ES256")] == ["a"]
    twice = parse_key_set({"keys": [{**EC, "kid": "a"}, {**EC, "kid": "c"}]})
    assert twice.candidates(None, "ES256") == ()


def test_of_keys_with_one_kid_those_of_the_algorithm_are_tried() -> None:
    keys = parse_key_set({"keys": [{**EC, "kid": "a"}, {**RSA, "kid": "a"}]})
    assert [key.alg for key in keys.candidates("a", "RS256")] == ["RS256"]
    assert keys.candidates("a", "PS256") == ()


def test_reasons_show_no_key_material() -> None:
    keys = parse_key_set({"keys": [EC, {**P384, "use": "enc", "kid": "x\n\x1b[31m"}]})
    (reason,) = keys.ignored
    assert P384["x"] not in reason
    assert reason.isprintable()
