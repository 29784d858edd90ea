"""The services that ``make reach`` measures over something else than HTTP, twenty calls at a time."""

from __future__ import annotations

from typing import Final

from lab.reach import launch as more
from lab.reach.appliances import OVER_HTTP
from lab.reach.rows import ARIA2, BLOCKS_CALLS, PUBLISHED, ROOT, Call, Row, debian, equals, has, npm, pypi
from tests.services import launch

_AT_ONCE: Final = 20
_REPEATS: Final = 34
"""Calls on each of the three surfaces: at least a hundred together."""
_METHODS: Final = ROOT / "config" / "examples" / "methods"
_ITEM: Final = {"namespace": "n", "key": "k"}
_INSERT: Final = {"op": "insert", "table": "Room", "row": {"name": "blue", "beds": 2}}
_SELECT: Final = {"op": "select", "table": "Room", "where": [["name", "==", "blue"]], "columns": ["beds"]}
_ROOMS: Final = (
    Call("list_dbs", {}, equals(["Rooms", "_Server"]), _REPEATS),
    Call("transact", {"database": "Rooms", "operation": _INSERT}, lambda result: "uuid" in result[0], 1),
    Call(
        "transact",
        {"database": "Rooms", "operation": _SELECT, "operation2": {"op": "comment", "comment": "read"}},
        lambda result: len(result) == 2 and result[0]["rows"] == [{"beds": 2}],
        _REPEATS,
    ),
    Call("get_schema", {"database": "Rooms"}, has("tables", "version"), _REPEATS),
)

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
    Row(
        "ovsdb-server (Debian), Unix socket",
        debian("openvswitch-common"),
        lambda: more.ovsdb().over("unix", "db"),
        _ROOMS,
        at_once=_AT_ONCE,
    ),
    Row(
        "ovsdb-server (Debian), TCP",
        debian("openvswitch-common"),
        more.ovsdb,
        _ROOMS,
        at_once=_AT_ONCE,
        pause=11.0,  # it asks `echo` after 5 s, and hangs up at 10 without an answer
        complaint="no response to inactivity probe",
    ),
    Row(
        "ovsdb-server (Debian), its control socket",
        debian("openvswitch-common"),
        lambda: more.ovsdb().over("unix", "ctl"),
        (
            Call("version", {}, lambda result: "ovsdb-server" in result, _REPEATS),
            Call("ovsdb-server_list-dbs", {}, lambda result: "Rooms" in result, _REPEATS),
        ),
        at_once=_AT_ONCE,
    ),
    Row(
        "snapserver (Debian), TCP",
        debian("snapserver"),
        more.snapserver,
        (
            Call("Server_GetRPCVersion", {}, equals({"major": 2, "minor": 0, "patch": 0}), _REPEATS),
            Call("Server_GetStatus", {}, lambda result: result["server"]["groups"] == [], _REPEATS),
        ),
        file=_METHODS / "snapserver.yaml",
        at_once=_AT_ONCE,
    ),
    Row(
        "Moonraker (PyPI), Unix socket",
        pypi("Moonraker", more.PYTHON),
        lambda: more.moonraker().over("unix", "comms/moonraker.sock"),
        (
            Call("server_info", {}, has("klippy_connected", "moonraker_version"), _REPEATS),
            Call("server_database_post_item", {"namespace": "n", "key": "k", "value": 5}, has("key", "value"), 1),
            Call("server_database_get_item", _ITEM, lambda result: result["value"] == 5, _REPEATS),
        ),
        file=_METHODS / "moonraker.yaml",
        more=("backend.framing=etx",),
        at_once=_AT_ONCE,
    ),
)
ALL: Final = (*OVER_HTTP, *SOCKET_ROWS)
