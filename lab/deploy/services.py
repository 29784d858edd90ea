"""The twelve services, each of a kind of its own, and one more that comes later. Each has a call with a number of the
caller's among its arguments, which the service is sent, and a result that is known.

All of them are real services that ``make test`` starts; the site is our Drupal, which checks each caller's token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.services import launch
from tests.services.launch import ARIA2_SECRET
from tests.services.process import Service

HOST: Final = "gw.example.com"
"""The name under which clients reach the gateway: the overlay's own."""
SITE_SCOPES: Final = ("tutorial:read", "tutorial:search")
_NONE: Final = {"mode": "none"}
_DELUGE: Final = {
    "mode": "login",
    "password": "deluge",
    "login": {
        "method": "auth.login",
        "params": ["{password}"],
        "find": {"session": "$.cookies._session_id"},
        "expired": [1],
    },
    "send": {"headers": {"Cookie": "_session_id={session}"}},
}


def resource(name: str) -> str:
    """Return the identifier of a service as a protected resource."""
    return f"https://{HOST}/{name}/mcp"


@dataclass(frozen=True)
class Kind:
    """One service: how it starts, the credential that the gateway shows it, and the call that is made: its ``tool``,
    the arguments for a number, and whether a result is right."""

    start: Callable[[], Service]
    tool: str
    arguments: Callable[[str], Mapping[str, Any]]
    is_right: Callable[[str, Any], bool]
    credentials: Mapping[str, Any] = field(default_factory=lambda: _NONE)
    backend: Mapping[str, Any] = field(default_factory=dict)
    """Further knobs."""


_ECHO: Final = Kind(
    launch.openrpc_app, "echo", lambda n: {"value": f"call {n}"}, lambda n, got: bool(got == f"call {n}")
)

SERVICES: Final[Mapping[str, Kind]] = {
    "books": replace(_ECHO, credentials={"mode": "basic", "user": "gateway"}),  # its password is in a Secret
    "crm": Kind(launch.fastapi_app, "echo", lambda n: {"data": n}, lambda n, got: bool(got == n)),
    "shop": Kind(
        launch.flask_app,
        "App_strangeEcho",
        lambda n: {"string": n, "omg": "b"},
        lambda n, got: bool(got == [n, "b", "nothing"]),
    ),
    "stock": Kind(launch.flask2_app, "App_greet", lambda n: {"name": n}, lambda n, got: bool(got == f"Hello {n}")),
    "billing": Kind(
        launch.pelix_app, "seats_book", lambda n: {"row": n, "seat": 4}, lambda n, got: bool(got["row"] == n)
    ),
    "payroll": Kind(
        launch.tryton,
        "model_res_user_search_count",
        lambda n: {"params": [[["login", "=", n]], {}]},
        lambda _, got: bool(got == 0),
        {"mode": "basic", "user": "admin", "password": "admin"},
    ),
    "search": Kind(
        launch.electrum,
        "validateaddress",
        lambda n: {"params": [n]},
        lambda _, got: got is False,
        {"mode": "basic", "user": "u", "password": "p"},
    ),
    "tickets": Kind(
        launch.openrpc_server, "create_pet", lambda n: {"newPetName": n}, lambda _, got: isinstance(got, int)
    ),
    "wiki": Kind(
        launch.drupal,
        "examples_articles_list",
        lambda n: {"page": {"offset": int(n), "limit": 1}},
        lambda _, got: bool(got == []),
        {"mode": "same_resource", "backend_audience": resource("wiki")},
        {"listing": {"dialect": "jsonrpc_mcp"}},
    ),
    "mail": Kind(
        launch.deluge, "web_set_config", lambda n: {"params": [{"theme": n}]}, lambda _, got: got is None, _DELUGE
    ),
    "calendar": Kind(
        launch.mopidy,
        "core_tracklist_filter",
        lambda n: {"criteria": {"uri": [n]}},
        lambda _, got: bool(got == []),
    ),
    "reports": Kind(
        launch.aria2,
        "aria2_changeGlobalOption",
        lambda n: {"params": [{"user-agent": n}]},
        lambda _, got: bool(got == "OK"),
        {"mode": "static", "send": {"params": [f"token:{ARIA2_SECRET}"]}},
    ),
}
LATER: Final = "archive"
"""The service that is added."""
GONE: Final = "calendar"
"""The service that is removed."""
ALL: Final = {**SERVICES, LATER: _ECHO}
SLOW: Final = Kind(
    launch.openrpc_app,
    "slow",
    lambda n: {"seconds": float(f"0.4{n}1")},
    lambda n, got: bool(got == float(f"0.4{n}1")),
)
"""A call of ``books`` that takes a while, so that some are always under way."""


def entry(name: str, url: str) -> dict[str, Any]:
    """Return what an operator writes of a service."""
    kind = ALL[name]
    return {"backend": {"url": url, "credentials": dict(kind.credentials), **kind.backend}}
