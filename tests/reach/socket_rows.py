"""The services that ``make reach`` measures over something else than HTTP, twenty calls at a time."""

from __future__ import annotations

from typing import Final

from tests.reach import launch as more
from tests.reach.rows import ARIA2, BLOCKS_CALLS, PUBLISHED, ROWS, Call, Row, debian, equals, has, npm
from tests.services import launch

_AT_ONCE: Final = 20
_REPEATS: Final = 34
"""Calls on each of the three surfaces: at least a hundred together."""

SOCKET_ROWS: Final = (
    Row(
        "rpc-websockets (npm), WebSocket",
        npm("rpc-websockets", more.NODE_MODULES),
        more.rpc_websockets,
        (
            Call("seats_book", {"params": {"row": "C", "seat": 4}}, equals("C4"), _REPEATS),
            Call("seats_free", {"params": ["A", "B"]}, equals(14), _REPEATS),
        ),
        at_once=_AT_ONCE,
    ),
    Row(
        "ganache (npm), WebSocket",
        npm("ganache", more.NODE_MODULES),
        lambda: more.ganache().over("ws", "/"),
        tuple(call._replace(repeats=_REPEATS) for call in (*BLOCKS_CALLS, Call("eth_chainId", {}, equals("0x539")))),
        hint=PUBLISHED,
        at_once=_AT_ONCE,
    ),
    Row(
        "aria2 (Debian), WebSocket",
        debian("aria2"),
        lambda: launch.aria2().over("ws", "/jsonrpc"),
        (
            Call("aria2_getVersion", {}, has("version", "enabledFeatures"), _REPEATS),
            Call("aria2_tellActive", {}, equals([]), _REPEATS),
        ),
        credentials=ARIA2,
        at_once=_AT_ONCE,
    ),
    Row(
        "mopidy (Debian), WebSocket",
        debian("mopidy"),
        lambda: launch.mopidy().over("ws", "/mopidy/ws"),
        (
            Call("core_tracklist_get_length", {}, equals(0), _REPEATS),
            Call("core_mixer_set_volume", {"volume": 30}, equals(True), 1),
            Call("core_mixer_get_volume", {}, equals(30), _REPEATS),
        ),
        at_once=_AT_ONCE,
    ),
)
ALL_ROWS: Final = (*ROWS, *SOCKET_ROWS)
