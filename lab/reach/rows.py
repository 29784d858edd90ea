"""The services that ``make reach`` measures, and calls of each whose right result is known."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from lab.reach import launch as more
from tests.services import launch
from tests.services.launch import ARIA2_SECRET, FLASK2_PYTHON, LOGIN_PASSWORD
from tests.services.process import Service

ROOT: Final = Path(__file__).parents[2]
Test: TypeAlias = Callable[[Any], bool]


class Call(NamedTuple):
    """Hold a call, and what tells whether its result is right. ``repeats`` is how often it is made on each surface:
    once where it changes what the service keeps."""

    tool: str
    arguments: Mapping[str, Any]
    is_right: Test
    repeats: int = 20


class Hint(NamedTuple):
    """Hold the settings that follow a sentence which `check` prints, and the sentence."""

    said: str
    settings: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """Hold a service. ``credentials`` are settings that only prove who asks, so they are no hint. ``hint`` follows
    `check`, ``file`` is a methods file written by hand: each is tried only where what is simpler gives no listing.
    An ``appliance`` lists nothing to anybody. ``pinned`` adds the fingerprint of its certificate, which `check` prints.
    ``told`` is what cause and next step must have where no call can be made, since the service is a mistake."""

    service: str
    version: Callable[[], str]
    start: Callable[[], Service]
    calls: tuple[Call, ...]
    credentials: tuple[str, ...] = ()
    hint: Hint | None = None
    file: Path | None = field(default=None)
    appliance: bool = False
    pinned: bool = False
    told: tuple[str, ...] = ()
    at_once: int = 1
    """How many calls are made at a time."""
    more: tuple[str, ...] = ()
    """Settings that go with ``file``."""
    pause: float = 0.0
    """Seconds without a call after those of each tool."""
    complaint: str = ""
    """What the service's output says where its connection was not kept."""


def equals(value: Any) -> Test:
    return lambda result: bool(result == value)


def has(*members: str) -> Test:
    """Return a test for an object with at least these members."""
    return lambda result: isinstance(result, dict) and set(members) <= result.keys()


def shell(command: str) -> str:
    return subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def debian(package: str) -> Callable[[], str]:
    """Return what gives the version of a Debian package, without Debian's own part."""
    return lambda: re.split(r"[-+]", shell(f"dpkg-query -W -f '${{Version}}' {package}").rpartition(":")[2])[0]


def pypi(package: str, python: Path | str = ".venv/bin/python") -> Callable[[], str]:
    code = f"import importlib.metadata as m; print(m.version('{package}'))"
    return lambda: shell(f'{python} -c "{code}"')


def npm(package: str, folder: Path) -> Callable[[], str]:
    file = folder / package / "package.json"
    return lambda: shell(f"""sed -n 's/^ *"version": "\\(.*\\)",*$/\\1/p' {file} | head -1""")


_ETHEREUM: Final = launch.NODE_PROJECT / "node_modules" / "@metamask" / "api-specs" / "dist" / "build" / "openrpc.json"
PUBLISHED: Final = Hint(
    # Clients of Ethereum list nothing, since one OpenRPC document that others publish describes them all.
    "backend.listing.dialect: static and backend.listing.file",
    (f"backend.listing={{dialect: static, file: {_ETHEREUM}}}",),
)
BLOCKS_CALLS: Final = (
    Call("eth_accounts", {}, lambda result: len(result) in (10, 20)),
    Call("eth_getBalance", {"Address": "0x" + "11" * 20, "Block": "latest"}, equals("0x0")),
    Call("eth_blockNumber", {}, equals("0x0")),
)
ARIA2: Final = (f"backend.credentials={{mode: static, send: {{params: ['token:{ARIA2_SECRET}']}}}}",)
_TRYTON_READ: Final = {"params": [[1], ["name", "login"], {}]}
_PARCELS: Final = [{"grams": 5}, {"grams": 7, "fragile": True}]

ROWS: Final = (
    Row(
        "openrpc (PyPI)",
        pypi("openrpc"),
        launch.openrpc_app,
        (
            Call("add", {"a": 2, "b": 3}, equals(5)),
            Call("cross", {"u": {"x": 1, "y": 0}, "v": {"x": 0, "y": 1}}, equals({"x": 0, "y": 0, "z": 1})),
            Call("walk", {"node": {"name": "a", "children": [{"name": "b"}]}}, equals(["a", "b"])),
        ),
    ),
    Row(
        "fastapi-jsonrpc (PyPI)",
        pypi("fastapi-jsonrpc"),
        launch.fastapi_app,
        (
            Call("echo", {"data": "x"}, equals("x")),
            Call("move", {"p": {"x": 1}}, equals({"x": 2, "y": 2})),
        ),
    ),
    Row(
        "pjrpc (PyPI)",
        pypi("pjrpc", more.PYTHON),
        more.pjrpc,
        (
            Call("parcels_weigh", {"parcels": _PARCELS}, equals(12)),
            Call("parcels_price", {"grams": 200}, equals(2)),
            Call("parcels_price", {"grams": 200, "express": True}, equals(7)),
        ),
    ),
    Row(
        "Flask-JSONRPC (PyPI)",
        pypi("Flask-JSONRPC"),
        launch.flask_app,
        (
            Call("App_add", {"a": 2, "b": 3}, equals(5)),
            Call("App_strangeEcho", {"string": "a", "omg": "b"}, equals(["a", "b", "nothing"])),
        ),
    ),
    Row(
        "Flask-JSONRPC 2 (PyPI)",
        pypi("Flask-JSONRPC", FLASK2_PYTHON),
        launch.flask2_app,
        (
            Call("App_add", {"a": 2, "b": 3}, equals(5)),
            Call("App_greet", {"name": "Ada"}, equals("Hello Ada")),
            Call("App_sort", {"items": [2, 3, 1], "options": {"reverse": True}}, equals([3, 2, 1])),
        ),
    ),
    Row(
        "jsonrpclib-pelix (PyPI)",
        pypi("jsonrpclib-pelix"),
        launch.pelix_app,
        (
            Call("seats_book", {"row": "C", "seat": 4}, equals({"row": "C", "seat": 4, "name": "nobody"})),
            Call("seats_free", {"rows": ["A", "B"]}, equals(14)),
        ),
    ),
    Row(
        "django-modern-rpc (PyPI)",
        pypi("django-modern-rpc", more.PYTHON),
        more.django_modern_rpc,
        (
            Call("rooms_book", {"arg0": 7, "arg1": "Ada", "arg2": 2}, equals("7: Ada, 2")),
            Call("rooms_free", {"arg0": [1, 2]}, equals(18)),
        ),
    ),
    Row(
        "rpc4django (PyPI)",
        pypi("rpc4django", more.PYTHON),
        more.rpc4django,
        (
            Call("rooms_book", {"room": 7, "guest": "Ada"}, equals("7: Ada")),
            Call("rooms_nights", {"stays": [1, 2, 3]}, equals(6)),
        ),
    ),
    Row(
        "Moonraker (PyPI)",
        pypi("Moonraker", more.PYTHON),
        more.moonraker,
        (
            Call("server_info", {}, has("klippy_connected", "moonraker_version")),
            Call("server_database_post_item", {"namespace": "n", "key": "k", "value": 5}, has("key", "value"), 1),
            Call("server_database_get_item", {"namespace": "n", "key": "k"}, lambda result: result["value"] == 5),
        ),
        file=ROOT / "config" / "examples" / "methods" / "moonraker.yaml",
    ),
    Row(
        "@open-rpc/server-js (npm)",
        npm("@open-rpc/server-js", launch.NODE_PROJECT / "node_modules"),
        launch.openrpc_server,
        (
            Call("get_pet", {"petId": 1}, lambda result: result["name"] == "rex"),
            Call("list_pets", {"limit": 1}, lambda result: len(result) == 1),
        ),
    ),
    Row(
        "ganache (npm)",
        npm("ganache", more.NODE_MODULES),
        more.ganache,
        (*BLOCKS_CALLS, Call("eth_chainId", {}, equals("0x539"))),
        hint=PUBLISHED,
    ),
    Row(
        "hardhat (npm)",
        npm("hardhat", more.NODE_MODULES),
        more.hardhat,
        (*BLOCKS_CALLS, Call("eth_chainId", {}, equals("0x7a69"))),
        hint=PUBLISHED,
    ),
    Row(
        "aria2 (Debian)",
        debian("aria2"),
        launch.aria2,
        (
            Call("aria2_getVersion", {}, has("version", "enabledFeatures")),
            Call("aria2_tellActive", {}, equals([])),
            Call("aria2_changeGlobalOption", {"params": [{"max-overall-download-limit": "5K"}]}, equals("OK"), 1),
            Call("aria2_getGlobalOption", {}, lambda result: result["max-overall-download-limit"] == "5120"),
        ),
        credentials=ARIA2,
    ),
    Row(
        "deluge-web (Debian)",
        debian("deluge-web"),
        launch.deluge,
        (
            Call("auth_check_session", {}, equals(True)),
            Call("web_get_hosts", {}, lambda result: result[0][2] == 58846),
            Call("web_set_config", {"params": [{"theme": "gray"}]}, equals(None), 1),
            Call("web_get_config", {}, lambda result: result["theme"] == "gray"),
        ),
        credentials=(
            "backend.credentials={mode: login, password: deluge, login: {method: auth.login, "
            'params: ["{password}"], find: {session: $.cookies._session_id}, expired: [1]}, '
            'send: {headers: {Cookie: "_session_id={session}"}}}',
        ),
    ),
    Row(
        "electrum (Debian)",
        debian("electrum"),
        launch.electrum,
        (
            Call(
                "validateaddress", {"params": {"address": "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"}}, equals(True)
            ),
            Call("validateaddress", {"params": ["nowhere"]}, equals(False)),
            Call("version_info", {}, has("electrum.version")),
        ),
        credentials=("backend.credentials={mode: basic, user: u, password: p}",),
    ),
    Row(
        "kamailio (Debian)",
        debian("kamailio"),
        more.kamailio,
        (
            Call("core_echo", {"params": ["a", "b"]}, equals(["a", "b"])),
            Call("core_version", {}, lambda result: "kamailio" in str(result)),
            Call("htable_sets", {"params": ["rooms", "k", "v"]}, lambda result: True, 1),
            Call("htable_get", {"params": ["rooms", "k"]}, lambda result: result["item"]["value"] == "v"),
        ),
    ),
    Row(
        "kodi (Debian)",
        debian("kodi-bin"),
        more.kodi,
        (
            Call("Application_SetVolume", {"volume": 42}, equals(42), 1),
            Call("Application_GetProperties", {"properties": ["volume"]}, equals({"volume": 42})),
            Call("Player_GetActivePlayers", {}, equals([])),
            Call("Settings_GetSettingValue", {"setting": "services.webserver"}, equals({"value": True})),
        ),
    ),
    Row(
        "mopidy (Debian)",
        debian("mopidy"),
        launch.mopidy,
        (
            Call("core_playlists_create", {"name": "mine"}, lambda result: result["name"] == "mine", 1),
            Call("core_tracklist_get_length", {}, equals(0)),
            Call("core_mixer_set_volume", {"volume": 30}, equals(True), 1),
            Call("core_mixer_get_volume", {}, equals(30)),
        ),
    ),
    Row(
        "monerod (Debian)",
        debian("monero"),
        launch.monerod,
        (
            Call("get_block_count", {}, lambda result: result["count"] == 1),
            Call("get_block", {"height": 0}, lambda result: result["block_header"]["height"] == 0),
        ),
        credentials=(f"backend.credentials={{mode: digest, user: gateway, password: {LOGIN_PASSWORD}}}",),
        file=ROOT / "config" / "examples" / "methods" / "monero.yaml",
    ),
    Row(
        "tryton-server (Debian)",
        debian("tryton-server"),
        launch.tryton,
        (
            Call(
                "model_res_user_read",
                _TRYTON_READ,
                equals([{"id": 1, "name": "Administrator", "login": "admin"}]),
            ),
            Call("model_res_user_search_count", {"params": [[["login", "=", "admin"]], {}]}, equals(1)),
        ),
        credentials=("backend.credentials={mode: basic, user: admin, password: admin}",),
    ),
)
