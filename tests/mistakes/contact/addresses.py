"""The URL is not quite that of the service; or it is a product that one question knows."""

from __future__ import annotations

from typing import Any, Final

from tests.mistakes.contact.row import Contact
from tests.mistakes.contact.stand_ins import Asked, Http, Reply, always, at, html, listed, rpc

PATHS: Final = (
    "/jsonrpc", "/rpc", "/api/jsonrpc", "/api", "/json_rpc", "/mopidy/rpc", "/RPC2", "/api/v1/jsonrpc", "/jsonrpc.php",
    "/json", "/ubus", "/api_jsonrpc.php", "/v1/jsonrpc", "/json-rpc", "/api/rpc", "/server/jsonrpc",
    "/transmission/rpc", "/api/v1",
)  # fmt: skip


def _below(path: str) -> Contact:
    """Return the row of a service at a usual path, of whom somebody types host and port alone."""
    stand_in = at({path: listed()}, html("It works", 200) if len(path) % 2 else html("Not Found", 404))
    remedy = f"Set backend.url to http://<host>{path}"
    return Contact(f"The service is at {path}.", stand_in, f"but {path} is one", remedy, "http://<host>/")


def _redirect(location: str, status: int = 302) -> Reply:
    return Reply("", status, "text/html", {"Location": location})


def _product(results: dict[str, Any]) -> Http:
    """Return a product that answers these methods, and has no listing."""
    return Http(rpc(results))


def _nowhere(asked: Asked) -> Reply:
    return html("Not Found", 404) if asked.verb == "GET" else html("Method Not Allowed", 405)


URLS: Final = (
    Contact("A space stands behind the URL.", Http(listed()), "openrpc", "", "http://<host>/jsonrpc ", code=0),
    Contact("The URL has no scheme.",
            Http(listed()), "it begins with http://", "http://<host>/jsonrpc", "<host>/jsonrpc",
            code=2),
    Contact("The URL is a host name.", Http(listed()), "it begins with http://", "http://", "localhost:<port>", code=2),
    Contact("IPv6 without brackets.", Http(listed()), "[::1]", "backend.url", "http://::1:<port>/jsonrpc", code=2),
    Contact("A longer IPv6 address without brackets.", Http(listed()), "[2001:db8::7]", "backend.url",
            "http://2001:db8::7:<port>/jsonrpc", code=2),
    Contact("User and password in the URL.", Http(listed()), "backend.url", "mode: basic",
            "http://ann:pa55word@<host>/jsonrpc", code=2),
    Contact("A user alone in the URL.",
            Http(listed()), "backend.url", "mode: basic", "http://ann@<host>/jsonrpc", code=2),
    Contact("A WebSocket is given, and it is HTTP.", Http(listed()), "opens no WebSocket",
            "Set backend.url to http://<host>/jsonrpc", "ws://<host>/jsonrpc"),
    Contact("It redirects to itself.", Http(lambda asked: _redirect(asked.path)), "redirects to itself", "https",
            "http://<host>/jsonrpc"),
    Contact("It redirects to itself with a cookie.",
            Http(lambda asked: Reply("", 307, headers={"Location": asked.path, "Set-Cookie": "seen=1"})),
            "redirects to itself", "cookie", "http://<host>/jsonrpc"),
    Contact("It redirects to a slash at the end.",
            at({"/rpc/": listed(), "/rpc": _redirect("/rpc/", 301)}), "redirects elsewhere",
            "Set backend.url to http://<host>/rpc/", "http://<host>/rpc"),
    Contact("It redirects to a login page.", Http(lambda _: _redirect("/login?next=/jsonrpc")), "login page",
            "backend.credentials", "http://<host>/jsonrpc"),
    Contact("Nothing listens there.", always(""), "Nothing listens", "Start the service", "http://127.0.0.1:9/jsonrpc"),
    Contact("A proxy of the environment is not read.", Http(listed()), "cannot be resolved", "HTTP_PROXY",
            "http://shop.invalid/jsonrpc", environ={"HTTP_PROXY": "http://<host>"}),
    Contact("A proxy of the environment in small letters is not read.",
            Http(listed()), "Nothing listens", "backend.proxy",
            "https://127.0.0.1:9/jsonrpc", environ={"https_proxy": "http://<host>"}),
    Contact("All usual paths are wrong.", Http(_nowhere), "so do the usual paths", "documentation", "http://<host>/"),
)  # fmt: skip

PRODUCTS: Final = (
    Contact("An Ethereum node.", _product({"web3_clientVersion": "Geth/v1.14.12-stable/linux-amd64/go1.23"}),
            "Geth/v1.14.12", "OpenRPC", "http://<host>/"),
    Contact("Another Ethereum node.", _product({"web3_clientVersion": "anvil/v1.0.0", "rpc_modules": {"eth": "1.0"}}),
            "anvil/v1.0.0", "OpenRPC", "http://<host>/"),
    Contact("A node with modules alone.", _product({"rpc_modules": {"eth": "1.0", "net": "1.0", "txpool": "1.0"}}),
            "eth, net, txpool", "OpenRPC", "http://<host>/"),
    Contact("A node of Bitcoin.", _product({"getnetworkinfo": {"version": 270000, "subversion": "/Satoshi:27.0.0/"}}),
            "/Satoshi:27.0.0/", "file", "http://<host>/"),
    Contact("A camera.",
            _product({"getVersions": [["1.0"], ["1.1"]]}), "speaks JSON-RPC", "file", "http://<host>/sony"),
    Contact("A Kodi without introspection.",
            _product({"JSONRPC.Version": {"version": {"major": 13, "minor": 5, "patch": 0}}}),
            "Kodi", "JSONRPC.Introspect", "http://<host>/jsonrpc"),
    Contact("A Zabbix.", _product({"apiinfo.version": "6.0.14"}), "Zabbix 6.0.14", "docs/credentials.md",
            "http://<host>/api_jsonrpc.php"),
    Contact("An Odoo.", Http(lambda asked: html("404", 404) if asked.path != "/jsonrpc" else rpc({}, error={
                "code": 200, "message": "Odoo Server Error", "data": {"name": "builtins.KeyError"}})(asked)),
            "Odoo Server Error", "docs/credentials.md"),
)  # fmt: skip

_TRUSTED: Final = ("backend.tls.ca_file=<dir>/ca.pem",)

TLS: Final = (
    Contact("The certificate is for another name.", Http(listed(), names=("shop.internal",)), "shop.internal",
            "backend.tls.server_name: shop.internal", "https://<host>/jsonrpc", _TRUSTED),
    Contact("The certificate is for other names.", Http(listed(), names=("a.internal", "b.internal")),
            "a.internal, b.internal", "backend.tls.server_name", "https://<host>/jsonrpc", _TRUSTED),
    Contact("The certificate is of an authority of their own.", Http(listed(), names=("127.0.0.1",)), "is not trusted",
            "backend.tls.ca_file", "https://<host>/jsonrpc"),
    Contact("The certificate is of an appliance.", Http(listed(), names=("fortigate",)), "is not trusted",
            "backend.tls.fingerprint: ", "https://<host>/jsonrpc"),
    Contact("The certificate has expired.", Http(listed(), names=("127.0.0.1",), expired=True), "has expired", "enew",
            "https://<host>/jsonrpc", _TRUSTED),
    Contact("The port has TLS, the URL has not.", Http(listed(), names=("127.0.0.1",)), "speaks TLS",
            "Set backend.url to https://<host>/jsonrpc"),
    Contact("The URL has TLS, the port has not.",
            Http(listed()), "without TLS", "Set backend.url to http://<host>/jsonrpc",
            "https://<host>/jsonrpc"),
)  # fmt: skip

ROWS: Final = (*map(_below, PATHS), *URLS, *PRODUCTS, *TLS)
