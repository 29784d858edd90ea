"""What docs/keys.md and the README say of API keys, typed as there: keys, a gateway that reads them, an entry."""

from __future__ import annotations

import json
import stat
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from gateway.auth.api_keys import digest_of, new_key
from gateway.config.key_file import KeyFileError, add_key, new_entry, read_keys
from gateway.config.strict_yaml import read_yaml
from tests.fault.scripted import ScriptedBackend
from tests.program import Program, Ran, run, settings
from tests.waiting import until


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.yaml"


async def keys(file: Path, *words: str) -> Ran:
    return await run("keys", *words, "--file", str(file))


async def key_of(file: Path, *words: str) -> str:
    ran = await keys(file, "add", *words)
    assert ran.code == 0, ran
    return ran.out.strip()


def text_of(file: Path) -> str:
    return file.read_text()


def write(file: Path, text: str, mode: int = 0o600) -> Path:
    file.write_text(text)
    file.chmod(mode)
    return file


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


@asynccontextmanager
async def serving(backend: ScriptedBackend, file: Path) -> AsyncIterator[tuple[Program, str]]:
    knobs = settings(backend.url, "auth.mode=keys", f"auth.keys.file={file}")
    async with Program("serve", *knobs) as program:
        await program.logged("listing refreshed")
        yield program, f"http://127.0.0.1:{(await program.logged('gateway started'))['port']}"


async def status_of(url: str, key: str) -> int:
    headers = {"Authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession() as session, session.get(f"{url}/mcp/tools/list", headers=headers) as response:
        return response.status


async def test_a_gateway_reads_the_file_again_when_a_key_comes_or_goes(backend: ScriptedBackend, file: Path) -> None:
    ann = await key_of(file, "ann", "--scopes", "books.read,books.write", "--expires", "90d")
    async with serving(backend, file) as (program, url):
        assert await status_of(url, ann) == 200
        bob = await key_of(file, "bob")
        await until(lambda: status_of(url, bob), lambda status: status == 200)
        revoked = await keys(file, "revoke", "ann")
        assert revoked.out.startswith("Revoked: ann ")
        await until(lambda: status_of(url, ann), lambda status: status == 401)
        assert await status_of(url, bob) == 200
        write(file, text_of(file) + "- {name: bad}\n")
        refused = await program.logged("configuration refused, the old one stays")
        assert "entry 2, sha256: Field required" in refused["faults"][0]
        assert await status_of(url, bob) == 200
    assert not any("jmg_" in line for line in program.lines)


async def test_a_key_is_printed_once_and_the_file_has_its_digest_alone(file: Path) -> None:
    write(file, "# Ours.\n", 0o640)
    key = await key_of(file, "ann", "--scopes", "a,b")
    text = text_of(file)
    assert text.startswith("# Ours.\n")
    assert key not in text
    assert [entry["scopes"] for entry in read_yaml(text, "")] == [["a", "b"]]
    assert mode_of(file) == 0o640
    listed = await keys(file, "list")
    assert listed.out.split()[:2] == ["ann", read_yaml(text, "")[0]["sha256"][:8]]
    printed = await keys(file, "add", "bob", "--print")
    assert read_yaml(printed.out, "")[0]["name"] == "bob"
    assert "jmg_" not in printed.out
    assert "jmg_" in printed.err
    assert text_of(file) == text


async def test_a_third_key_of_a_name_and_what_is_no_value_are_refused_and_nothing_is_lost(file: Path) -> None:
    await key_of(file, "ann")
    await key_of(file, "ann")
    before = text_of(file)
    for words, said in {
        ("add", "ann"): "ann has 3 keys, at most 2: revoke one first",
        ("add", "b c"): "name: String should match pattern '^[A-Za-z0-9]",
        ("add", "bob", "--expires", "soon"): "--expires soon: must be a time such as 90d or 12h",
        ("add", "bob", "--expires", "3000000d"): "--expires 3000000d: must be a time such as 90d or 12h",
        ("add", "bob", "--scopes", 'a"b'): "is not a scope",
        ("revoke", "eve"): "has no key of eve",
    }.items():
        ran = await keys(file, *words)
        assert (ran.code > 0, said in ran.err) == (True, True), ran
        assert text_of(file) == before
    one = read_yaml(before, "")[0]["sha256"][:8]
    assert (await keys(file, "revoke", "ann", "--key", one)).code == 0
    assert [entry["sha256"][:8] != one for entry in read_yaml(text_of(file), "")] == [True]


def test_a_file_is_changed_by_one_program_at_a_time_and_no_key_is_lost(file: Path) -> None:
    def added(name: str) -> str:
        try:
            add_key(file, new_entry(name, digest_of(new_key()), (), None))
        except KeyFileError as error:
            return str(error)
        return name

    for _ in range(5):
        file.unlink(missing_ok=True)
        with ThreadPoolExecutor(4) as at_once:
            answers = [*at_once.map(added, ("a", "b", "c", "d"))]
        assert {key.name for key in read_keys(file)} == {answer for answer in answers if " " not in answer}
    lock = file.with_name(f".{file.name}.lock")
    lock.touch()  # as a program that was killed leaves it
    assert f"if none does, delete {lock}" in added("ann")


CLIENTS = {
    "claude-code": ("mcpServers", {"headers": {"Authorization": "Bearer ${GATEWAY_KEY}"}}),
    "vscode": ("servers", {"headers": {"Authorization": "Bearer ${env:GATEWAY_KEY}"}}),
    "cursor": ("mcpServers", {"headers": {"Authorization": "Bearer ${env:GATEWAY_KEY}"}}),
    "gemini": ("mcpServers", {"headers": {"Authorization": "Bearer ${GATEWAY_KEY}"}}),
}


@pytest.mark.parametrize("client", CLIENTS)
async def test_the_entry_of_a_client_names_the_variable_and_never_has_the_key(client: str, tmp_path: Path) -> None:
    target = tmp_path / "client.json"
    url = "http://127.0.0.1:8000/jsonrpc"
    words = ("connect", url, "--http", "--client", client, "--write", "--file", str(target), "--entry", "books")
    ran = await run(*words, "--key-env", "GATEWAY_KEY", GATEWAY_KEY="jmg_secret")
    assert ran.code == 0, ran
    section, wanted = CLIENTS[client]
    assert json.loads(text_of(target))[section]["books"].items() >= wanted.items()
    assert "jmg_" not in text_of(target)
    for bad in (("--key-env", "jmg_secret"), ("--key-env", "")):
        refused = await run(*words, *bad)
        assert (refused.code, "never the key itself" in refused.err) == (2, True)


async def test_codex_and_stdio_have_ways_of_their_own(tmp_path: Path) -> None:
    url = "http://127.0.0.1:8000/jsonrpc"
    codex = await run("connect", url, "--http", "--client", "codex", "--key-env", "GATEWAY_KEY")
    assert 'bearer_token_env_var = "GATEWAY_KEY"' in codex.out
    stdio = await run("connect", url, "--key-env", "GATEWAY_KEY")
    assert (stdio.code, "--key-env needs --http" in stdio.err) == (2, True)


async def test_check_and_call_act_with_a_key_and_no_service_is_sent_one(backend: ScriptedBackend, file: Path) -> None:
    key = await key_of(file, "ann", "--expires", "90d")
    token = file.with_name("token")
    write(token, key)
    knobs = settings(backend.url, "auth.mode=keys", f"auth.keys.file={file}")
    checked = await run("check", *knobs, "--token-file", str(token))
    assert checked.code == 0, checked
    assert f"API keys     1 in {file}" in checked.out
    assert "ann" in checked.out
    refused = await run("check", *knobs, "--token-file", str(write(token, key[:-1])))
    assert "it is not a whole key" in refused.said
    assert "`keys add` makes one" in refused.said
    assert not any("jmg_" in str(sent.headers) for sent in backend.requests)
    write(token, key)
    stdio = await run("stdio", *settings(backend.url), "--token-file", str(token))
    assert (stdio.code, "which no service is sent" in stdio.err) == (2, True)
