"""What a key file takes away counts whatever else is faulty. What it gives waits."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import ClientSession

from gateway.aiohttp_app import GATEWAY, aiohttp_app
from gateway.auth.api_keys import digest_of, new_key
from gateway.config.key_file import revoke_keys
from gateway.config.source import ConfigSource, load_settings
from gateway.process import file_watcher, key_files, serving
from gateway.process.file_watcher import FileWatcher
from gateway.process.key_files import GONE, KeyFiles
from gateway.process.server import Server
from gateway.process.serving import Reloads
from tests.authorization.stand import Bearer, Stand
from tests.authorization.test_api_keys import TWO_AND_THREE, keyed
from tests.configuring import in_place, put
from tests.each import each
from tests.fault.scripted import ScriptedBackend
from tests.protocol.embedding import Open
from tests.protocol.official import MODERN
from tests.protocol.talk import Client
from tests.waiting import until

ANN, BOB, ZOE = new_key(), new_key(), new_key()


def entry(key: str, name: str, scopes: str = "read", expires: str = "2099-01-01") -> str:
    return f"- {{name: {name}, sha256: '{digest_of(key)}', scopes: [{scopes}], expires: '{expires}T00:00:00Z'}}\n"


A, B, Z = entry(ANN, "ann"), entry(BOB, "bob"), entry(ZOE, "zoe")
FAULTY: Final = "- {name: eve, sha256: short}\n"
KNOBS: Final = ("catalog.tools={add: {scopes: [read]}}", "auth.scopes.implies={admin: [read, write]}")


@pytest.fixture
async def session() -> AsyncIterator[ClientSession]:
    async with ClientSession() as session:
        yield session


@pytest.fixture
def file(tmp_path: Path) -> Path:
    put(file := tmp_path / "keys.yaml", A + B)
    return file


async def statuses(it: Stand, *keys: str) -> list[int]:
    """What a call of a tool that needs the scope read gets with each key."""
    return [(await it.client(key).call("rest", "add", TWO_AND_THREE)).status for key in keys]


@each("text, ann, bob", {
    "taken out": (B, 401, 200),
    "taken out of a file with another fault": (B + FAULTY, 401, 200),
    "a fault in another entry": (A + B + FAULTY, 200, 200),
    "a fault in its own entry": (A.replace("2099-01-01", "soon") + B, 200, 200),
    "its hash is no longer whole": (A.replace(digest_of(ANN), digest_of(ANN)[:-1]) + B, 401, 200),
    "in a comment, with another fault": (f"# {A}{B}{FAULTY}", 401, 200),
    "behind another entry in a comment of a text that is no YAML": (f"{B.rstrip()} # {A}: [", 401, 200),
    "no YAML": (f"{A}{B}: [", 200, 200),
    "no UTF-8": (A.replace("ann", "\udcff") + B, 200, 200),
    "fewer scopes": (entry(ANN, "ann", "") + B, 403, 200),
    "fewer scopes in a file with another fault": (entry(ANN, "ann", "") + B + FAULTY, 403, 200),
    "other scopes": (entry(ANN, "ann", "write") + B, 403, 200),
    "more scopes": (entry(ANN, "ann", "admin") + B, 200, 200),
    "an earlier end": (entry(ANN, "ann", expires="2020-01-01") + B, 401, 200),
    "a key twice, once with an earlier end": (A + entry(ANN, "ann", expires="2020-01-01") + B, 401, 200),
    "none at all": ("[]", 401, 401),
    "empty": ("", 200, 200),
    "blank": ("\n", 200, 200),
}.values())  # fmt: skip
async def test_what_is_taken_away_counts_alone_and_nothing_is_given(file: Path, text: str, ann: int, bob: int) -> None:
    put(file, A + B)
    async with keyed(file, *KNOBS) as it:
        assert await statuses(it, ANN, BOB) == [200, 200]
        in_place(file, text + Z * (len(text) > 2))
        await KeyFiles(it.gateway, lambda _: None).take_away()
        assert await statuses(it, ANN, BOB, ZOE) == [ann, bob, 401]
        put(file, A + B)  # as it was when it was read: all is given back
        await it.gateway.reload()
        assert await statuses(it, ANN, BOB) == [200, 200]


async def test_a_key_that_implied_scopes_keeps_those_that_its_new_ones_imply(file: Path) -> None:
    put(file, entry(ANN, "ann", "admin"))
    async with keyed(file, *KNOBS) as it:
        for scopes, status in (("read", 200), ("admin", 200), ("write", 403), ("admin", 403)):
            put(file, entry(ANN, "ann", scopes))
            await KeyFiles(it.gateway, lambda _: None).take_away()
            assert await statuses(it, ANN) == [status], scopes


def removed(file: Path) -> None:
    if file.is_dir():
        file.rmdir()
    file.unlink(missing_ok=True)


def now_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@each("lose", [removed, now_a_folder, lambda file: in_place(file, ""), lambda file: in_place(file, " \n")])
async def test_the_keys_of_a_file_that_is_gone_for_60_s_are_revoked_until_it_is_back(
    file: Path, lose: Callable[[Path], None]
) -> None:
    put(file, A + B)
    async with keyed(file, *KNOBS) as it:
        now = 0.0
        watcher = FileWatcher(lambda: now)
        watcher.add_new([file])
        keys = KeyFiles(it.gateway, watcher.forget, lambda: now)
        lose(file)
        for now in (1.0, 2.0, GONE):  # noqa: B007, the clock
            await keys.look()
        assert [one.cause for one in keys.problems] == [f"auth.keys.file: {file} is gone"]
        assert await statuses(it, ANN, BOB) == [200, 200]
        now = 1.0 + GONE
        await keys.look()
        assert "gone, empty, or cannot be read: its keys are revoked" in "".join(one.cause for one in keys.problems)
        assert await statuses(it, ANN, BOB) == [401, 401]
        removed(file)
        put(file, A + B)
        await keys.look()
        assert not keys.problems
        assert watcher.changed([file]) == []
        now += 1.0
        assert watcher.changed([file]) == [file]
        await it.gateway.reload()
        assert await statuses(it, ANN, BOB) == [200, 200]


SERVER: Final = "server: {port: 0, admin_port: 0}\n"


def one_service(url: str) -> str:
    auth = "auth: {mode: keys, keys: {file: keys.yaml}}\n"
    return f"{SERVER}{auth}backend: {{url: '{url}', credentials: {{mode: none}}}}\n"


@asynccontextmanager
async def watching(folder: Path, text: str) -> AsyncIterator[tuple[Server, Reloads, Callable[[str], None]]]:
    """A gateway that watches its configuration, and what adds a text to that."""
    put(config := folder / "gateway.yaml", text)
    source = ConfigSource(config, environ={})
    server = Server(source.load_settings())
    reloads = Reloads(server, source)
    await server.start()
    try:
        reloads.start()
        yield server, reloads, lambda more: put(config, text + more)
    finally:
        await server.stop()


async def becomes(session: ClientSession, port: int, key: str, status: int, mount: str = "") -> None:
    """Wait until a list with a key has this status."""

    async def now() -> int:
        return (await Bearer(session, port, key, mount).list(MODERN)).status

    assert await until(now, lambda seen: seen == status)


@each("way", ["watched", "SIGHUP", "/reload"])
async def test_a_revoked_key_is_over_while_the_configuration_is_refused(
    tmp_path: Path, file: Path, backend: ScriptedBackend, session: ClientSession, way: str
) -> None:
    put(file, A + B)
    async with watching(tmp_path, one_service(backend.url)) as (server, reloads, change):
        change("nonsense: 1\n")
        await until(lambda: server.configuration["refused"])
        await becomes(session, server.port, ANN, 200)
        revoke_keys(file, "ann")
        if way == "/reload":
            assert (await Client(session, server.admin_port).send("POST", "/reload")).status == 409
            assert (await Bearer(session, server.port, ANN).list(MODERN)).status == 401
        elif way == "SIGHUP":
            reloads.ask()
        await becomes(session, server.port, ANN, 401)
        put(file, B + Z)
        await reloads.read_again()
        assert [(await Bearer(session, server.port, key).list(MODERN)).status for key in (BOB, ZOE)] == [200, 401]
        change("")
        await becomes(session, server.port, ZOE, 200)


async def test_a_reload_waits_while_a_key_file_changes_in_place(
    tmp_path: Path, file: Path, backend: ScriptedBackend, session: ClientSession
) -> None:
    async with watching(tmp_path, one_service(backend.url)) as (server, reloads, _):
        in_place(file, A)
        asked = asyncio.create_task(reloads.read_again())
        for _ in range(3):
            assert (await Bearer(session, server.port, BOB).list(MODERN)).status == 200
            in_place(file, A)
        in_place(file, A + B)
        assert await asked == []
        assert (await Bearer(session, server.port, BOB).list(MODERN)).status == 200


async def test_a_revoked_key_is_over_while_a_reload_waits_for_a_file_which_is_named_then(
    tmp_path: Path, file: Path, backend: ScriptedBackend, session: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.process.serving._READING", 4.0)
    put(file, A + B)
    os.mkfifo(tmp_path / "pipe")
    async with watching(tmp_path, one_service(backend.url)) as (server, reloads, change):
        change(f"store: {{}}\nlimits: {{discovery: '${{file:{tmp_path / 'pipe'}}}'}}\n")
        asked = asyncio.create_task(reloads.read_again())
        revoke_keys(file, "ann")
        await becomes(session, server.port, ANN, 401)
        assert not asked.done()
        assert await asked == [
            f"the configuration: {tmp_path / 'pipe'}: not read within 4 s: is it a pipe, or does its file system hang?"
        ]
        change("")
        assert await reloads.read_again() == []
        assert (await Bearer(session, server.port, BOB).list(MODERN)).status == 200


async def test_a_key_file_that_hangs_holds_up_no_other_and_its_own_keys_are_revoked(
    tmp_path: Path, file: Path, backend: ScriptedBackend, session: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(file, A + B)
    put(hanging := tmp_path / "hanging.yaml", Z)
    goes_on = threading.Event()

    def waits(path: Path, before: Callable[[Path], bool] = key_files.is_gone) -> bool:
        return not goes_on.wait() if path == hanging else before(path)

    monkeypatch.setattr(key_files, "is_gone", waits)
    monkeypatch.setattr(key_files, "GONE", 2.0)
    monkeypatch.setattr(key_files, "_PATIENCE", 1.0)
    backends = f"backend: {{url: '{backend.url}', credentials: {{mode: none}}}}"
    one, two = (f"auth: {{mode: keys, keys: {{file: {keys}}}}}" for keys in (file, hanging))
    text = f"{SERVER}services:\n  one: {{{one}, {backends}}}\n  two: {{{two}, {backends}}}\n"
    async with watching(tmp_path, text) as (server, _, _):
        await becomes(session, server.port, ANN, 200, "/one")
        revoke_keys(file, "ann")
        await becomes(session, server.port, ANN, 401, "/one")
        await becomes(session, server.port, ZOE, 401, "/two")
        assert "hanging.yaml is gone, empty, or cannot be read" in str(server.status()["problems"])
        goes_on.set()
        await becomes(session, server.port, ZOE, 200, "/two")


async def test_a_file_that_hangs_holds_up_no_reload_that_leaves_it_out(
    tmp_path: Path, file: Path, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(file, A)
    put(hanging := tmp_path / "spare.yaml", '{"methods": {"add": {}}}')
    hangs, goes_on = threading.Event(), threading.Event()

    def status(path: Path, before: Callable[[Path], Any] = file_watcher._status_of) -> Any:
        if path == hanging and hangs.is_set():
            goes_on.wait()
        return before(path)

    monkeypatch.setattr(file_watcher, "_status_of", status)
    monkeypatch.setattr(serving, "_PATIENCE", 0.3)
    async with watching(tmp_path, one_service(backend.url)) as (server, reloads, change):
        change("catalog: {fallback: spare.yaml}\n")
        await until(lambda: server.settings.by_mount[""].catalog.fallback)
        hangs.set()
        await until(lambda: "no change of a file is seen" in str(server.status()["problems"]))
        change("")
        assert await reloads.read_again() == []
        assert server.settings.by_mount[""].catalog.fallback is None
        await until(lambda: not server.status()["problems"])
        goes_on.set()


def mounted(folder: Path, *versions: str) -> None:
    """Kubernetes mounts keys.yaml -> ..data/keys.yaml, and moves ..data to another folder."""
    for number, text in enumerate(versions):
        (folder / f"..{number}").mkdir()
        put(folder / f"..{number}" / "keys.yaml", text)
    (folder / "..data").symlink_to("..0")
    (folder / "keys.yaml").symlink_to("..data/keys.yaml")


def swapped(folder: Path) -> None:
    (folder / "..data_tmp").symlink_to("..1")
    (folder / "..data_tmp").replace(folder / "..data")


async def test_a_mounted_secret_that_is_swapped_revokes_while_the_configuration_is_refused(
    tmp_path: Path, backend: ScriptedBackend, session: ClientSession
) -> None:
    mounted(tmp_path, A + B, B)
    async with watching(tmp_path, one_service(backend.url)) as (server, _, change):
        change("nonsense: 1\n")
        swapped(tmp_path)
        await becomes(session, server.port, ANN, 401)
        await becomes(session, server.port, BOB, 200)


async def test_within_aiohttp_key_files_are_watched(file: Path, aiohttp_client: Open, backend: ScriptedBackend) -> None:
    knobs = (f"backend.url={backend.url}", "auth.mode=keys", f"auth.keys.file={file}", "backend.credentials.mode=none")
    app = aiohttp_app(load_settings(None, knobs, environ={}))
    test_client = await aiohttp_client(app)
    session, port = test_client.session, test_client.server.port or 0
    await becomes(session, port, ANN, 200)
    put(file, A + Z)
    await becomes(session, port, BOB, 401)
    await becomes(session, port, ZOE, 200)
    put(file, Z + FAULTY)
    await becomes(session, port, ANN, 401)
    await becomes(session, port, ZOE, 200)
    await until(lambda: "entry 2, sha256" in str(app[GATEWAY].status()["problems"]))
