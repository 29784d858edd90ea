"""``check --json``: its shape is the one that docs/checking.md describes, in every state of a service."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.program import run, settings

PAGE = Path(__file__).parents[2] / "docs" / "checking.md"
GREET = Rpc("greet", {"name": {"type": "string"}}, {"type": "string"}, "Say hello")
OUTSIDE = Rpc("outside", {"a": {"$ref": "https://example.com/schema.json"}})


@pytest.fixture
def methods() -> Sequence[Rpc]:
    return (GREET, OUTSIDE)


def documented() -> set[str]:
    rows = re.findall(r"^\| (`[^|]*`) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {member for row in rows for member in re.findall(r"`([^`]+)`", row)}


def members(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each member, as the page writes it."""
    if isinstance(value, list):
        for item in value:
            yield from members(item, f"{path}[]")
    elif isinstance(value, dict):
        for name, child in value.items():
            where = f"{path}.{'*' if path.endswith('.claims') else name}".lstrip(".")
            yield where
            yield from members(child, where)


async def test_the_tools_and_what_is_left_out_are_there(backend: ScriptedBackend) -> None:
    ran = await run("check", "--json", *settings(backend.url, "catalog.exclude=[hidden.*]"))
    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    (service,) = document["services"]
    assert document["exit_code"] == service["exit_code"] == 0
    assert (service["name"], service["path"], service["backend"]) == (None, "/mcp", backend.url)
    assert service["auth"] == {"mode": "off", "resource": None, "issuers": []}
    assert service["tools"] == [{"name": "greet", "method": "greet", "arguments": ["name"], "required": ["name"]}]
    (left_out,) = service["quarantined"]
    assert left_out["method"] == "outside"
    assert left_out["reason"].startswith("$ref https://example.com/schema.json")
    assert (service["dialect"], service["token"], service["failure"]) == ("openrpc", None, None)


async def test_a_failure_has_its_cause_the_next_step_and_the_questions(backend: ScriptedBackend) -> None:
    ran = await run("check", "--json", *settings(backend.refused_url))
    assert (ran.code, ran.err) == (3, "")
    (service,) = json.loads(ran.out)["services"]
    place = backend.refused_url.split("/")[2]
    assert service["failure"]["cause"] == f"Nothing listens at {place}."
    assert service["failure"]["next"] == "Start the service, or set backend.url to where it listens."
    assert service["failure"]["steps"] == [{"questions": ["rpc.discover"], "answer": "connection refused"}]
    assert service["exit_code"] == 3
    assert service["tools"] == []


async def test_what_the_report_tells_is_not_logged_too(backend: ScriptedBackend) -> None:
    """The log line came after the next step, where it was written before the process ended."""
    login = "backend.credentials={mode: login, password: x, login: {method: greet, params: {name: '{password}'}, " \
            "find: {session: $.session}}, send: {headers: {X-Session: '{session}'}}}"  # fmt: skip
    for command in (["check"], ["check", "--json"], ["tools"]):
        ran = await run(*command, *settings(backend.url, login))
        assert (ran.code, "no text or integer at $.session" in ran.said) == (3, True)
        assert "no token for the backend" not in ran.said


async def test_a_service_without_tools_fails_with_a_line_and_no_cause(backend: ScriptedBackend) -> None:
    ran = await run("check", "--json", *settings(backend.url, "catalog.include=[nothing]"))
    (service,) = json.loads(ran.out)["services"]
    failure = {"lines": ["There are no tools to offer."], "cause": None, "next": None, "steps": []}
    assert (ran.code, service["failure"]) == (1, failure)


async def test_all_services_are_there_under_their_names(backend: ScriptedBackend, tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    services = {"crm": {"backend": {"url": backend.url}}, "shop": {"backend": {"url": backend.refused_url}}}
    file.write_text(json.dumps({"auth": {"mode": "off"}, "services": services}))
    ran = await run("check", "--json", "--config", str(file))
    document = json.loads(ran.out)
    assert (ran.code, document["exit_code"]) == (3, 3)
    named = [(service["name"], service["path"], service["exit_code"]) for service in document["services"]]
    assert named == [("crm", "/crm/mcp", 0), ("shop", "/shop/mcp", 3)]


async def test_a_faulty_configuration_prints_nothing_on_standard_output() -> None:
    ran = await run("check", "--json", *settings("ftp://x"))
    assert (ran.code, ran.out) == (2, "")


async def test_every_member_is_documented_and_every_documented_one_is_there(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("eyJ0eXAiOiJKV1QiLCJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwczovL3gifQ.AAAA")
    issuer = backend.refused_url.removesuffix("/jsonrpc")
    refused = settings(
        backend.url, f"auth.issuers=[{{issuer: {issuer}}}]", "backend.credentials.mode=none", "server.port=8080"
    )
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef")
    away = settings(backend.refused_url, "store.url=redis://127.0.0.1:9", f"server.secret_file={secret}")
    harmful = settings(backend.url, "catalog.tools.greet.annotations={destructiveHint: true}")
    states = ([*harmful, "--agents"], away, [*refused, "--token-file", str(token)])
    found: set[str] = set()
    for state in states:
        ran = await run("check", "--json", *state)
        found |= {*members(json.loads(ran.out))}
    assert found == documented()
