"""The command line as a person or a script uses it: exit codes, messages that help, secrets that stay secret."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fault.behaviours import Body, error
from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.front import front
from tests.program import run, settings
from tests.services.process import free_port
from tests.waiting import PATIENCE

SECRET = "hunter2-never-print-this"
BIG = 2**70 + 1
GREET = Rpc("greet", {"name": {"type": "string"}}, {"type": "string"}, "Say hello", lambda name: f"Hello {name}")
ECHO = Rpc("echo", {"value": {}}, {}, "Give the value back", lambda value: value)
COUNT = Rpc("count", {"to": {"type": "integer"}}, {"type": "integer"}, "Count", lambda to: to)
COMMANDS = (("check",), ("tools",), ("call", "greet"))
OPEN = "auth         off: every client that reaches the port may list and call"


@pytest.fixture
def methods() -> Sequence[Rpc]:
    return (GREET, ECHO, COUNT)


async def test_check_prints_the_dialect_and_the_tools(backend: ScriptedBackend) -> None:
    ran = await run("check", *settings(backend.url))
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[:4] == [OPEN, f"backend      {backend.url}", "dialect      openrpc", "tools        3"]
    assert "  greet(name)  Say hello" in lines
    assert "quarantined  0" in lines
    assert lines[-1].startswith("store        in memory: permits, used proofs and consents")


async def test_check_names_what_is_quarantined_and_its_remedy() -> None:
    outside = Rpc("outside", {"a": {"$ref": "https://example.com/schema.json"}})
    async with ScriptedBackend((GREET, outside)) as backend:
        ran = await run("check", *settings(backend.url))
        assert ran.code == 0
        assert "quarantined  1" in ran.out
        assert "outside: $ref https://example.com/schema.json leads out of the listing" in ran.out
        assert 'remedy: give it a schema under catalog.tools."outside".arguments.a.schema' in ran.out
        remedy = 'catalog.tools={"outside": {arguments: {a: {schema: {type: string}}}}}'
        mended = await run("check", *settings(backend.url, remedy))
        assert "quarantined  0" in mended.out
        assert "tools        2" in mended.out


async def test_check_ends_with_1_where_there_is_no_tool(backend: ScriptedBackend) -> None:
    ran = await run("check", *settings(backend.url, "catalog.include=[nothing.*]"))
    assert ran.code == 1
    assert ran.err == "There are no tools to offer.\n"


async def test_tools_lists_a_line_for_each(backend: ScriptedBackend) -> None:
    ran = await run("tools", *settings(backend.url))
    assert (ran.code, ran.err) == (0, "")
    assert [line.split("(")[0] for line in ran.out.splitlines()] == ["count", "echo", "greet"]


async def test_tools_as_json_are_what_clients_are_shown(backend: ScriptedBackend) -> None:
    ran = await run("tools", "--json", *settings(backend.url))
    assert (ran.code, ran.err) == (0, "")
    async with front(backend.url) as gateway:
        assert {tool["name"]: tool for tool in json.loads(ran.out)["tools"]} == await gateway.tools("modern")


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (("greet", "--arg", "name=World"), "Hello World\n"),
        (("greet", "--arg", "name=5=five"), "Hello 5=five\n"),
        (("count", "--arg", f"to={BIG}"), f"{BIG}\n"),
        (("count", "--args", f'{{"to": {BIG}}}'), f"{BIG}\n"),
        (("echo", "--arg", "value={a: [1, x]}"), '{\n  "a": [\n    1,\n    "x"\n  ]\n}\n'),
        (("echo", "--args", '{"value": null}'), "null\n"),
        (("greet", "--args", "null", "--arg", "name=World"), "Hello World\n"),
    ],
)
async def test_call_prints_the_result(backend: ScriptedBackend, arguments: tuple[str, ...], printed: str) -> None:
    ran = await run("call", *arguments, *settings(backend.url))
    assert (ran.code, ran.out, ran.err) == (0, printed, "")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nope",), 1, "Unknown tool: nope"),
        (("greet",), 1, 'Invalid arguments: "name" is a required property'),
        (("greet", "--arg", "name"), 2, "--arg name: must be NAME=VALUE"),
        (("greet", "--args", "{"), 2, "--args is not JSON"),
        (("greet", "--args", "[1]"), 2, "--args must be a JSON object"),
        (("count", "--arg", "to=[1"), 2, "--arg to: the value is neither plain text nor JSON"),
        (("count", "--arg", "to=many"), 1, 'to: "many" is not of type "integer"'),
        ((), 2, "Missing argument 'TOOL'"),
    ],
)
async def test_a_call_that_cannot_be_made_says_why(
    backend: ScriptedBackend, arguments: tuple[str, ...], code: int, said: str
) -> None:
    ran = await run("call", *arguments, *settings(backend.url))
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert sum(backend.calls(method) for method in ("greet", "echo", "count")) == 0


async def test_a_methods_file_shows_what_people_cannot_see_and_has_other_letters_as_they_are() -> None:
    hidden, plain = "gréet\u202e\u200b\x1b", "zählen"
    async with ScriptedBackend((Rpc(hidden, {}, {}, hidden), Rpc(plain, {}, {}, plain))) as backend:
        ran = await run("methods", *settings(backend.url))
    assert yaml.safe_load(ran.out)["methods"].keys() == {hidden, plain}
    assert f"\n  {plain}:\n" in ran.out
    assert all(character.isprintable() or character == "\n" for character in ran.out)


async def test_a_call_that_fails_prints_the_tools_message_and_ends_with_1() -> None:
    async with ScriptedBackend() as backend:
        ran = await run("call", "fail", *settings(backend.url))
        assert (ran.code, ran.out, ran.err) == (1, "", "It failed, as it always does\n")
        assert backend.calls("fail") == 1


@pytest.mark.parametrize("command", [("check",), ("serve",)], ids=" ".join)
async def test_faults_of_the_configuration_come_all_at_once_by_knob(command: tuple[str, ...]) -> None:
    wrong = ("backend.url=ftp://x", "server.port=99999", "catalog.ttl=soon", "backend.tiemout=1s", "nope")
    ran = await run(*command, *(option for knob in wrong for option in ("--set", knob)))
    assert (ran.code, ran.out) == (2, "")
    head, *faults = ran.err.splitlines()
    assert head == "The configuration cannot be used:"
    assert len(faults) == 5
    for fault in (
        "backend.url: must be an http:// or https:// URL",
        "server.port: must be at most 65535",
        'catalog.ttl: must be a duration such as 500ms, 30s, 5m, 1h or 1d, not "soon"',
        "backend.tiemout: unknown key; known here: url, framing, calls_per_connection,",
        "--set nope: must be section.knob=value",
    ):
        assert fault in ran.err


@pytest.mark.parametrize("command", [*COMMANDS, ("serve",)], ids=" ".join)
async def test_who_may_call_has_to_be_said(backend: ScriptedBackend, command: tuple[str, ...]) -> None:
    ran = await run(*command, "--set", f"backend.url={backend.url}")
    assert (ran.code, ran.out) == (2, "")
    assert "auth.issuers: must name at least one authorization server" in ran.err
    assert "or set auth.mode: off" in ran.err
    assert not backend.requests


async def test_faults_of_a_file_name_the_place(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("backend:\n  url: http://127.0.0.1/\n  url: http://127.0.0.2/\n")
    ran = await run("check", "--config", str(file))
    assert ran.code == 2
    assert f'{file}:3:3: key "url" occurs twice' in ran.err
    ran = await run("check", "--config", str(tmp_path / "absent.yaml"))
    assert ran.code == 2
    assert "absent.yaml: No such file or directory" in ran.err


async def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    absent, garbage = tmp_path / "absent.pem", tmp_path / "garbage.pem"
    garbage.write_text("no certificate")
    for file in (absent, garbage):
        ran = await run("check", *settings("https://127.0.0.1:9/", f"backend.tls.ca_file={file}"))
        assert ran.code == 2
        assert f"backend.tls.ca_file: {file}: " in ran.err


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_a_backend_that_refuses_the_connection_ends_with_3_and_says_so(
    backend: ScriptedBackend, command: tuple[str, ...]
) -> None:
    ran = await run(*command, *settings(backend.refused_url))
    assert (ran.code, ran.out) == (3, f"{OPEN}\n" if command == ("check",) else "")
    place = backend.refused_url.split("/")[2]
    assert ran.err.splitlines() == [
        f"{backend.refused_url} gave no listing of its methods.",
        "  rpc.discover: connection refused",
        f"cause        Nothing listens at {place}.",
        "next         Start the service, or set backend.url to where it listens.",
    ]


async def test_a_backend_that_lists_nothing_is_answered_with_what_can_be_done() -> None:
    async with ScriptedBackend() as backend:
        backend.on("rpc.discover", Body(b"<html>Welcome</html>", 200, "text/html"))
        ran = await run("check", *settings(backend.url))
        assert (ran.code, ran.out) == (3, f"{OPEN}\n")
        assert "rpc.discover: HTTP 200, text/html" in ran.err
        assert "cause        It speaks JSON-RPC, and does not list its methods in a known form." in ran.err
        assert "backend.listing.dialect: static and backend.listing.file" in ran.err
        assert "Welcome" not in ran.err


@pytest.mark.parametrize("knob", ["server.port", "server.admin_port"])
@pytest.mark.parametrize("mode", ["off", "jwt"])
async def test_a_taken_port_ends_serve_with_2_and_names_its_knob(
    backend: ScriptedBackend, knob: str, mode: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        wants_tokens = (
            "auth.mode=jwt", f"auth.issuers=[{{issuer: {backend.refused_url}}}]", "backend.credentials.mode=none",
            "server.public_url=https://gateway.example.com",
        )  # fmt: skip
        more = () if mode == "off" else wants_tokens
        async with asyncio.timeout(PATIENCE):
            ran = await run("serve", *settings(backend.url, f"{knob}={port}", *more))
    assert ran.code == 2
    assert f"Cannot listen on 127.0.0.1 port {port}: address already in use\nSet {knob} to a free one.\n" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("knob", ["server.host", "server.admin_host"])
async def test_a_host_that_cannot_be_resolved_ends_serve_with_2_and_names_its_knob(
    backend: ScriptedBackend, knob: str
) -> None:
    ports = f"server.port={free_port()}", f"server.admin_port={free_port()}"
    everybody = "auth.mode=off", "auth.allow_unauthenticated=true"
    async with asyncio.timeout(PATIENCE):
        ran = await run("serve", *settings(backend.url, f"{knob}=absent.invalid", *everybody, *ports))
    assert ran.code == 2
    assert "Cannot listen on absent.invalid port " in ran.err
    assert ": the name cannot be resolved\n" in ran.err
    assert f"Set {knob} to an address of this machine.\n" in ran.err


@pytest.mark.parametrize("command", [("check",), ("call", "greet", "--arg", "name=x")], ids=["check", "call"])
async def test_no_output_shows_a_secret(backend: ScriptedBackend, command: tuple[str, ...]) -> None:
    mode, value = "backend.credentials.mode=static", f"backend.credentials.send.headers.Authorization=Bearer {SECRET}"
    params = f'backend.credentials.send.params=["token:{SECRET}"]'
    well = settings(backend.url, mode, value, params)
    refused = settings(backend.refused_url, mode, value, params)
    faulty = settings(f"http://user:{SECRET}@127.0.0.1/", value)
    wrong = f"backend.credentials.send={{headers: {{a: [{SECRET}]}}}}"
    malformed = settings(backend.url, wrong, f"backend.listing.custom.params={SECRET}")
    backend.default = error(1001, f"{SECRET} is not known here")
    for options, code in ((well, int(command[0] == "call")), (refused, 3), (faulty, 2), (malformed, 2)):
        ran = await run(*command, *options)
        assert ran.code == code
        assert SECRET not in ran.said
    assert backend.requests[0].headers["Authorization"] == f"Bearer {SECRET}"


async def test_the_environment_sets_knobs_and_the_command_line_wins(backend: ScriptedBackend) -> None:
    environ = {
        "GATEWAY__BACKEND__URL": backend.refused_url,
        "GATEWAY__CATALOG__EXCLUDE": "[greet]",
        "GATEWAY__AUTH__MODE": "off",
    }
    assert (await run("tools", **environ)).code == 3
    ran = await run("tools", "--set", f"backend.url={backend.url}", **environ)
    assert ran.code == 0
    assert "greet" not in ran.out
    assert "echo" in ran.out


async def test_a_variable_that_looks_like_a_knob_is_remarked_also_where_the_configuration_is_faulty() -> None:
    ran = await run("check", GATEWAY_BACKEND_URL="http://127.0.0.1:9/", GATEWAY__AUTH__MODEL="off")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("Warning: GATEWAY_BACKEND_URL is not read")
    assert "GATEWAY__BACKEND__URL" in ran.err
    assert "GATEWAY__AUTH__MODEL: is not a knob; did you mean GATEWAY__AUTH__MODE?" in ran.err
    assert "backend.url: is required" in ran.err


@pytest.mark.parametrize("form", ["json", "yaml", "methods"])
async def test_schema_prints_each_form_without_a_backend(form: str) -> None:
    ran = await run("schema", "--format", form)
    assert (ran.code, ran.err) == (0, "")
    if form in ("json", "methods"):
        schema: dict[str, Any] = json.loads(ran.out)
        assert schema["type"] == "object"
        assert ("backend" if form == "json" else "methods") in schema["properties"]
    else:
        assert "url" in yaml.safe_load(ran.out)["backend"]


async def test_schema_prints_a_file_to_begin_with_that_only_lacks_its_servers(
    backend: ScriptedBackend, tmp_path: Path
) -> None:
    """Something may listen at the address that it has as an example."""
    ran = await run("schema", "--format", "yaml", "--minimal")
    assert (ran.code, ran.err, ran.out.count("\n")) == (0, "", 12)
    example = "http://127.0.0.1:8000/jsonrpc"
    assert ran.out.count(example) == 1
    (tmp_path / "gateway.yaml").write_text(ran.out.replace(example, backend.refused_url))
    checked = await run("check", "--config", str(tmp_path / "gateway.yaml"), "--set=auth.mode=off")
    assert checked.code == 3
    assert "gave no listing of its methods" in checked.err


async def test_the_small_form_is_of_yaml_alone() -> None:
    ran = await run("schema", "--minimal")
    assert (ran.code, ran.out) == (2, "")
    assert "--minimal needs --format yaml." in ran.err


@pytest.mark.parametrize("arguments", [("frobnicate",), ("check", "--frob"), ("schema", "--format", "toml")])
async def test_a_wrong_command_line_ends_with_2_and_says_what_is_wrong(arguments: tuple[str, ...]) -> None:
    ran = await run(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "Error: " in ran.err
    assert arguments[-1] in ran.err


async def test_help_names_every_command() -> None:
    ran = await run("--help")
    assert ran.code == 0
    for command in ("serve", "check", "tools", "call", "schema", "demo"):
        assert f"\n  {command} " in ran.out
