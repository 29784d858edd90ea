"""Services of ``make reach`` that list nothing to anybody, and mistakes: things that are no JSON-RPC service.

They do not count in the shares of docs/reach.md, which are about services whose methods can be found. Every call must
be right.
"""

from __future__ import annotations

from typing import Any, Final

from lab.reach import launch as more
from lab.reach.rows import ROOT, ROWS, Call, Row, debian, equals, has, pypi
from tests.services import launch
from tests.services.launch import LOGIN_PASSWORD

_METHODS: Final = ROOT / "config" / "examples" / "methods"
_GROUP: Final = {"groupid": "2", "name": "Linux servers"}
_DEVICE: Final = {"url": "/dvmdb/device/branch-1"}


def _login(password: str, login: str, send: str) -> str:
    return f"backend.credentials={{mode: login, user: admin, password: {password}, login: {login}, send: {send}}}"


def _device(result: Any) -> Any:
    return result[0]["data"]


APPLIANCES: Final = (
    Row(
        "i2pd (Debian)",
        debian("i2pd"),
        launch.i2pd,
        (
            Call("Echo", {"Echo": "hi"}, equals({"Result": "hi"})),
            Call("RouterInfo", {"i2p.router.version": "", "i2p.router.status": ""}, has("i2p.router.version")),
        ),
        credentials=(
            _login(
                LOGIN_PASSWORD,
                "{method: Authenticate, params: {API: 1, Password: '{password}'}, find: {token: $.result.Token}, "
                "expired: [-32003, -32004]}",
                "{arguments: {Token: '{token}'}}",
            ),
            "backend.ids=integer",
        ),
        file=_METHODS / "i2pd.yaml",
        pinned=True,
        appliance=True,
    ),
    Row(
        "Zabbix (Debian)",
        debian("zabbix-frontend-php"),
        more.zabbix,
        (
            Call("user_get", {"output": ["username"]}, lambda users: users[0]["username"] == "Admin"),
            Call("hostgroup_get", {"output": ["name"], "groupids": ["2"]}, equals([_GROUP])),
            Call("hostgroup_update", _GROUP, equals({"groupids": ["2"]}), 1),
        ),
        credentials=(
            _login(
                "zabbix",
                "{method: user.login, params: {username: Admin, password: '{password}'}, find: {token: $.result}, "
                "expired: [Session terminated, Not authorized]}",
                "{message: {auth: '{token}'}}",
            ),
            "backend.version=2.0-with-params",
        ),
        file=_METHODS / "zabbix.yaml",
        appliance=True,
    ),
    Row(
        "FortiManager (a stand-in)",
        lambda: "-",
        more.fortimanager,
        (
            Call("get", {"request": _DEVICE}, lambda result: _device(result)["name"] == "branch-1"),
            Call(
                "update",
                {"request": _DEVICE | {"data": {"ip": "192.0.2.8"}}},
                lambda result: result[0]["status"]["code"] == 0,
                1,
            ),
            Call("get", {"request": _DEVICE}, lambda result: _device(result)["ip"] == "192.0.2.8"),
        ),
        credentials=(
            _login(
                LOGIN_PASSWORD,
                "{method: exec, params: [{url: /sys/login/user, data: {user: '{user}', passwd: '{password}'}}], "
                "find: {session: $.message.session}}",
                "{message: {session: '{session}'}}",
            ),
        ),
        file=_METHODS / "fortimanager.yaml",
        pinned=True,
        appliance=True,
    ),
)

MISTAKES: Final = (
    Row(
        "transmission (Debian)",
        debian("transmission-daemon"),
        more.transmission,
        (),
        told=("At /transmission/rpc: It is Transmission", "docs/credentials.md"),
    ),
    Row(
        "mcp (PyPI)",
        pypi("mcp"),
        more.mcp_server,
        (),
        told=("It is an MCP server already: parcels 2.1.0", "Connect the client to it directly"),
    ),
)

OVER_HTTP: Final = (*ROWS, *APPLIANCES, *MISTAKES)
