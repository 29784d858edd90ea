"""A token and the gateway's own secrets appear in no log line and no answer, at any level, whatever goes wrong."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from aiohttp import ClientSession

from tests.authorization.forge import OMIT
from tests.authorization.issuer import ForgedIssuer
from tests.authorization.keys import ec_key
from tests.authorization.rows import ARGUMENTS, bearer, everywhere
from tests.authorization.stand import CALLS, LISTS, PUBLIC, RESOURCE, Listings, Stand
from tests.each import each
from tests.fault.behaviours import Body, error
from tests.fault.methods import METHODS
from tests.fault.scripted import ScriptedBackend
from tests.program import Program
from tests.waiting import until

SECRET = "canary-S3cret-4f1c9a7be2"


@dataclass
class Watched:
    """A gateway that is a program of its own and logs at level debug, with an issuer and a backend."""

    program: Program
    stand: Stand

    async def exercise(self, token: str) -> str:
        """All that a client can see of what it does with a token."""
        client = self.stand.client(token)
        answers = await everywhere(self.stand, bearer(token))
        answers += [await client.list(surface) for surface in LISTS]
        answers += [await client.call(surface, "add", ARGUMENTS) for surface in CALLS]
        return "\n".join(f"{answer.headers} {answer.body.decode()}" for answer in answers)


@asynccontextmanager
async def watched(*knobs: str) -> AsyncIterator[Watched]:
    async with ForgedIssuer(RESOURCE) as issuer, ScriptedBackend(METHODS) as backend, ClientSession() as session:
        listings = Listings([method.listed() for method in METHODS])
        backend.on("rpc.discover", listings)
        ground = (
            f"backend.url={backend.url}", "backend.listing.dialect=openrpc", "server.port=0", "server.admin_port=0",
            f"server.public_url={PUBLIC}", f"auth.issuers=[{{issuer: '{issuer.issuer}'}}]",
            "limits.discovery=100000/minute", "limits.invocation=100000/second",
            "telemetry.log.level=debug",
        )  # fmt: skip
        options = [option for knob in (*ground, *knobs) for option in ("--set", knob)]
        async with Program("serve", *options) as program:
            port = (await program.logged("gateway started"))["port"]
            gateway: Any = SimpleNamespace(port=port)
            yield Watched(program, Stand(gateway, issuer, backend, listings, session))


async def test_a_token_is_in_no_log_and_no_answer() -> None:
    async with watched(f"backend.credentials.backend_audience={RESOURCE}") as it:
        stand, issuer = it.stand, it.stand.issuer
        good = issuer.sign(sub="ann")
        tokens = [
            good,
            issuer.sign(exp=0),
            issuer.sign(aud="https://other.example.com"),
            issuer.sign(key=ec_key("k1")),
            issuer.sign(key=ec_key("unknown")),
            issuer.sign(sub=OMIT),
            issuer.sign(header={"typ": "JWT"}),
        ]
        seen = [await it.exercise(token) for token in tokens]
        echo = error(-32000, f"the token {good} and Bearer {good} are wrong", {"token": good, "trace": [good]})
        stand.backend.on("add", echo)
        seen.append(await it.exercise(good))
        refusal = f"refused: Bearer {good}".encode()
        for status in (401, 403, 500):
            stand.backend.on("add", Body(refusal, status=status, content_type="text/plain"))
            seen.append(await it.exercise(good))
        stand.listings.broken = Body(refusal, status=500, content_type="text/html")
        seen.append(await it.exercise(issuer.sign(sub="bob")))
        await it.program.said("the conditions of same_resource do not hold")
        written = it.program.output
    assert "token refused" in written
    everything = "\n".join([*seen, written])
    for token in tokens:
        assert token not in everything
        assert token.rpartition(".")[2] not in everything, "the signature alone"


@each("mode", ["client_credentials", "token_exchange", "static"])
async def test_a_secret_of_the_gateway_is_in_no_log_and_no_answer(mode: str) -> None:
    knobs = ["backend.listing.identity=shared", f"backend.credentials.mode={mode}"]
    if mode == "static":
        knobs.append(f"backend.credentials.send.headers.Authorization=Bearer {SECRET}")
    else:
        knobs += [
            "backend.listing.credentials.mode=none", "backend.credentials.client_id=gateway",
            f"backend.credentials.client_secret={SECRET}", "backend.credentials.audience=https://api.example.com",
        ]  # fmt: skip
    async with watched(*knobs) as it:
        issuer = it.stand.issuer
        seen = [await it.exercise(issuer.sign())]  # the issuer has no token endpoint: 404
        issuer.disturb("token", "500")
        seen.append(await it.exercise(issuer.sign(sub="bob")))
        it.stand.backend.on("add", error(-32000, f"what is {SECRET}?", [SECRET]))
        seen.append(await it.exercise(issuer.sign(sub="eve")))
        for status in (401, 500):
            it.stand.backend.on("add", Body(SECRET.encode(), status=status, content_type="text/plain"))
            seen.append(await it.exercise(issuer.sign(sub="ann")))
        written = it.program.output
    assert "gateway started" in written
    for text in (*seen, written):
        assert SECRET not in text


QUOTED = (
    "eyJhbGciOiJub25lIn0.eyJzdWIiOiJjYW5hcnkifQ.canary-signature", "token: canary0123456789",
    "Basic Y2FuYXJ5OmNhbmFyeQ==",    f'Digest username="gw", response="{"ca9a" * 8}"', "redis://canary:canary@db.canary.internal:6379/0",
    "Canary\\Billing\\Invoice", "canary.billing.Invoice.__init__()", "com.canary.billing.CanaryException",
    "/canary/billing/invoice.py:42", "/etc/canary/secrets.d",
)  # fmt: skip
"""What services say of their inside and of other credentials, each of a form that one pattern knows."""
INSIDE = re.compile(r"(?i)canary|Y2FuYXJ5|ca9a|billing")


async def test_what_a_service_quotes_of_its_inside_is_in_no_log_no_audit_and_no_answer(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    knobs = ("backend.credentials.mode=none", f"telemetry.audit.to={file}", "telemetry.audit.arguments=all")
    async with watched(*knobs) as it:
        ann = it.stand.client(it.stand.issuer.sign(sub="ann"))
        for number, quoted in enumerate(QUOTED):
            it.stand.backend.on(
                "add", error(-32000, f"it failed at {quoted} again", {"message": f"see {quoted} there"})
            )
            answers = [await ann.call(surface, "add", ARGUMENTS) for surface in CALLS]
            for answer in answers:
                assert "it failed at" in answer.body.decode()
                assert not INSIDE.search(answer.body.decode()), f"{number}: {answer.body.decode()}"
        lines = await until(lambda: file.read_text().splitlines(), lambda seen: len(seen) > len(QUOTED) * len(CALLS))
        written = it.program.output
    assert '"outcome":"execution_error"' in written
    assert not INSIDE.search(written.replace(str(file), ""))
    assert not INSIDE.search("\n".join(lines))
