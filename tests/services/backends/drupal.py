"""A Drupal site with the modules jsonrpc and jsonrpc_discovery, and with --mcp also jsonrpc_mcp.

Ours, not PHP: it speaks the bytes that real sites were seen to speak (see the package drupal_site).
Callers are `admin:admin` or bearer `tok-admin`, `api:api` or `tok-api`, `editor:editor` or `tok-editor`.
With --jwks and --audience also whoever has an access token that is signed by these keys, for this audience.
`GET /_test/requests` lists what the site was asked, `DELETE /_test/requests` forgets it.

Usage: python drupal.py --port N [--version 1|2|3] [--mcp] [--page-size N] [--anonymous]
                        [--jwks URL --audience URI] [--no-discovery]
"""

import argparse
from dataclasses import dataclass, field
from typing import Any

import jwt
from aiohttp import web
from drupal_site import calls, listing, pages, people, php, tools
from drupal_site.methods import METHODS, Site
from drupal_site.people import Account, Refused


@dataclass
class Drupal:
    """The routes of the site. Every path arrives here, because Drupal has an opinion on each of them."""

    version: int
    mcp: bool
    page_size: int
    anonymous: bool
    discovery: bool = True
    trusted: people.Trusted | None = None
    site: Site = field(default_factory=Site)
    seen: list[dict[str, Any]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        if request.path == "/_test/requests":
            return self._test_requests(request)
        body = (await request.read()).decode(errors="replace")
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append({"method": request.method, "path": request.path_qs, "headers": headers, "body": body})
        path = request.path.rstrip("/")
        if path == "/jsonrpc":
            return self._jsonrpc(request, body)
        if self.discovery and (path == "/jsonrpc/methods" or path.startswith("/jsonrpc/methods/")):
            return self._listing(request, path.removeprefix("/jsonrpc/methods").lstrip("/"))
        if self.mcp and path.startswith("/mcp/tools/"):
            return self._mcp(request, path.removeprefix("/mcp/tools/"), body)
        return self._no_route(request)

    def _test_requests(self, request: web.Request) -> web.Response:
        if request.method == "DELETE":
            self.seen.clear()
        return web.json_response(self.seen)

    def _account(self, request: web.Request) -> Account | Refused:
        authorization = request.headers.get("Authorization", "")
        known = people.accounts(mcp=self.mcp)
        if self.anonymous and not authorization:
            return people.Account("anonymous", None, by_bearer=True)
        return people.authenticate(authorization, known, self.trusted)

    def _turn_away(self, request: web.Request, refused: Refused) -> web.Response:
        if refused is Refused.WRONG_PASSWORD:
            return pages.refusal(request, 403)
        return pages.unauthorized(request)

    def _jsonrpc(self, request: web.Request, body: str) -> web.Response:
        if request.method == "OPTIONS":
            return pages.empty(200, Allow="POST, GET, OPTIONS" if self.version == 3 else "POST, GET")
        if request.method not in {"POST", "GET", "HEAD"}:
            return pages.not_allowed(request, "POST", "GET", "HEAD")
        account = self._account(request)
        if isinstance(account, Refused):
            return self._turn_away(request, account)
        return self._call(request, body, account)

    def _call(self, request: web.Request, body: str, account: Account) -> web.Response:
        """GET carries the request in `?query=` and runs it like any other."""
        text = body if request.method == "POST" else request.query.get("query", "")
        answer = calls.answer(text, account, self.site, self.version)
        if answer.status == 204:
            return pages.empty(204)
        if answer.body is None:
            return pages.crash(request)
        return pages.json_body(php.encode(answer.body), answer.status)

    def _listing(self, request: web.Request, name: str) -> web.Response:
        if request.method not in {"GET", "HEAD"}:
            return pages.not_allowed(request, "GET", "HEAD")
        account = self._account(request)
        if isinstance(account, Refused):
            return self._turn_away(request, account)
        language, origin = _language(request), f"http://{request.host}"
        if not name:
            found = listing.collection(account, origin, language, self.version)
            return pages.json_body(php.encode(found), **{"Content-Language": language})
        method = METHODS.get(name)
        if method is None or not account.may(method.permission):
            return pages.refusal(request, 404, f"The {name} method is not available.")
        found = listing.entry(method, origin, language, self.version)
        return pages.json_body(php.encode(found), **{"Content-Language": language})

    def _mcp(self, request: web.Request, name: str, body: str) -> web.Response:
        """The routes name no authentication, so that only global ones count: of ours, the bearer."""
        found = self._account(request)
        account = found if isinstance(found, Account) and found.by_bearer else None
        method = METHODS.get(name)
        if method is not None and method.tool is not None:
            challenge = tools.challenge(method, account)
            if challenge is not None:
                return pages.empty(challenge[0], **{"WWW-Authenticate": challenge[1]})
            if account is None:
                return pages.refusal(request, 403)
            return self._call(request, body, account)
        if name not in {"list", "describe"}:
            return self._no_route(request)
        if account is None:
            return pages.refusal(request, 403, "The 'access mcp tool discovery' permission is required.")
        if name == "describe":
            return self._describe(request, account)
        page = tools.page(account, _language(request), request.query.get("cursor", ""), self.page_size)
        return pages.json_body(php.encode(page), **{"X-Drupal-Dynamic-Cache": "UNCACHEABLE"})

    def _describe(self, request: web.Request, account: Account) -> web.Response:
        cached = self.site.describe_cache is not None
        name = request.query.get("name")
        status, text = tools.describe(account, self.site, _language(request), name)
        verdict = "UNCACHEABLE" if status == 200 else "HIT" if cached else "MISS"
        return pages.json_body(text, status, **{"X-Drupal-Dynamic-Cache": verdict})

    def _no_route(self, request: web.Request) -> web.Response:
        return pages.refusal(request, 404, f'No route found for "{request.method} {request.url}"')


def _language(request: web.Request) -> str:
    return "de" if request.headers.get("Accept-Language", "").lower().startswith("de") else "en"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--version", type=int, choices=(1, 2, 3), help="of the module jsonrpc; 2, with --mcp 3")
    parser.add_argument("--mcp", action="store_true", help="install jsonrpc_mcp")
    parser.add_argument("--page-size", type=int, default=50, help="of /mcp/tools/list")
    parser.add_argument("--anonymous", action="store_true", help="without credentials a caller is admin")
    parser.add_argument("--jwks", help="keys of the authorization server whose tokens count")
    parser.add_argument("--audience", help="that these tokens must be for")
    parser.add_argument("--no-discovery", action="store_true", help="without jsonrpc_discovery")
    options = parser.parse_args()
    trusted = people.Trusted(jwt.PyJWKClient(options.jwks), options.audience) if options.jwks else None
    # jsonrpc_mcp 1.5 needs jsonrpc 3.
    version = options.version or (3 if options.mcp else 2)
    drupal = Drupal(version, options.mcp, options.page_size, options.anonymous, not options.no_discovery, trusted)
    app = web.Application(client_max_size=64 * 1024**2)
    app.router.add_route("*", "/{path:.*}", drupal.handle)
    web.run_app(app, host="127.0.0.1", port=options.port, print=None)


if __name__ == "__main__":
    main()
