"""``check`` before a real Redis that does not serve: the cause, the next step, and exit code 3."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.fault.scripted import ScriptedBackend
from tests.program import run, settings
from tests.redis_server import RedisServer
from tests.services.process import free_port
from tests.tls import Authority


class Place(NamedTuple):
    """A Redis with a password on a plain port and on one with TLS."""

    plain: int
    tls: int
    nobody: int
    ca_file: Path


PASSWORD: Final = "store.password=s3cret"
# Knobs, whose {} are fields of Place, the cause and the next step.
FAULTS: Final = {
    "wrong password": (
        ("store.url=redis://127.0.0.1:{plain}", "store.password=wr0ng"),
        "It refuses the user or the password.",
        "Correct store.password, and the user in store.url.",
    ),
    "user without rights": (
        ("store.url=redis://few@127.0.0.1:{plain}", PASSWORD),
        "Its user lacks a right.",
        "Give it the rights that docs/deployment.md names.",
    ),
    "user without channels": (
        ("store.url=redis://deaf@127.0.0.1:{plain}", PASSWORD),
        "Its user lacks a right.",
        "Give it the rights that docs/deployment.md names.",
    ),
    "TLS to a plain port": (
        ("store.url=rediss://127.0.0.1:{plain}", "store.ca_file={ca_file}", PASSWORD),
        "It speaks Redis without TLS.",
        "Set store.url to redis://127.0.0.1:{plain}",
    ),
    "plain to a TLS port": (
        ("store.url=redis://127.0.0.1:{tls}", PASSWORD),
        "It speaks Redis with TLS.",
        "Set store.url to rediss://127.0.0.1:{tls}",
    ),
    "TLS of a stranger": (
        ("store.url=rediss://127.0.0.1:{tls}", PASSWORD),
        "Its TLS certificate is not trusted.",
        "Set store.ca_file to the authority that signed it.",
    ),
    "unknown host": (
        ("store.url=redis://nowhere.invalid:{plain}", PASSWORD),
        "The name of its host cannot be resolved.",
        "Correct the host in store.url.",
    ),
    "no such database": (
        ("store.url=redis://127.0.0.1:{plain}/99", PASSWORD),
        "It has no database of this number.",
        "Correct the number at the end of store.url.",
    ),
    "wrong port": (
        ("store.url=redis://127.0.0.1:{nobody}", PASSWORD),
        "Nothing listens there.",
        "Start Redis, or correct host and port in store.url.",
    ),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    authority = Authority(tmp_path_factory.mktemp("tls"))
    pem, port = str(authority.server_pem("127.0.0.1")), free_port()
    options = ("--tls-port", str(port), "--tls-cert-file", pem, "--tls-key-file", pem, "--tls-auth-clients", "no")
    with RedisServer(*options, "--tls-ca-cert-file", str(authority.file), password="s3cret") as server:
        few = {"enabled": True, "passwords": ["+s3cret"], "keys": ["*"]}
        server.control.acl_setuser("few", categories=["+@connection"], **few)
        server.control.acl_setuser("deaf", categories=["+@all"], **few)
        yield Place(server.port, port, free_port(), authority.file)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_store_that_cannot_be_used_is_named_with_the_next_step(
    backend: ScriptedBackend, place: Place, secret: str, fault: str
) -> None:
    knobs, cause, step = FAULTS[fault]
    made = settings(backend.url, secret, *(knob.format(**place._asdict()) for knob in knobs))
    ran = await run("check", *made)
    assert ran.code == 3, ran.said
    assert f"cause        {cause}\nnext         {step.format(**place._asdict())}\n" in ran.err
    assert "tools        " in ran.out, "the service is told of all the same"
    assert "s3cret" not in ran.said
    document = json.loads((await run("check", "--json", *made)).out)
    assert (document["exit_code"], document["store_failure"]["cause"]) == (3, cause)


async def test_a_store_that_can_be_used_answers(backend: ScriptedBackend, place: Place, secret: str) -> None:
    url = f"rediss://127.0.0.1:{place.tls}"
    ran = await run(
        "check", *settings(backend.url, secret, f"store.url={url}", f"store.ca_file={place.ca_file}", PASSWORD)
    )
    assert ran.code == 0, ran.said
    assert ran.out.splitlines()[-1] == f"store        {url} answers"
