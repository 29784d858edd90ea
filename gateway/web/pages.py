"""The pages for people who call a service: its state, how to connect, the tools that this caller sees, and one to try.

A token comes in the header Authorization of a fetch, as on every other path, and lives in the memory of a tab. Texts of
strangers stay texts: templates escape all. jinja2 is imported when a page is asked for.
"""

import base64
import hashlib
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from gateway import jsonrpc
from gateway.catalog.curation import Curation, left_out
from gateway.concurrency.background import Problem
from gateway.diagnosis.access import TokenReport
from gateway.discovery.tool_index import group_of, groups_of
from gateway.discovery.tool_search import ToolSearch
from gateway.errors import (
    GatewayError,
    InsufficientScope,
    InvalidArguments,
    InvalidRequest,
    RateLimited,
)
from gateway.http_server.response import Response
from gateway.mcp.envelope import call_request
from gateway.mcp.modern import PROJECTOR
from gateway.mcp.operations import Operations
from gateway.model import HINTS, Caller, Catalog, Demand, NameStyle, Principal, Tool
from gateway.settings import ResourceSettings
from gateway.text import excerpt, printable
from gateway.web.clients import CLIENTS, KEY_VARIABLE
from gateway.web.exchange import Exchange
from gateway.web.rest import PATIENCE
from gateway.web.tool_facts import rows_of_arguments, ways_of_calling

PAGE: Final = "page"
STATIC: Final = "/static/"
PAGE_SIZE: Final = 200
_FOLDER: Final = Path(__file__).parent
_HTML: Final = "text/html; charset=utf-8"
_TYPES: Final = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for "
    "'script'",
    "Referrer-Policy": "no-referrer",
    "Vary": "Authorization",
}
_ASSET_HEADERS: Final = {"Cache-Control": "public, max-age=31536000, immutable"}
_SHOWN: Final = 50
_MOST_TEXT: Final = 60_000
"""Bytes of a JSON text that a page shows."""
_BYTES_PER_TOKEN: Final = 4


@cache
def _assets() -> tuple[Mapping[str, str], Mapping[str, tuple[bytes, str]]]:
    """Return the file names with their hashes by kind, and content and type of each by path."""
    names, files = {}, {}
    for kind, content_type in _TYPES.items():
        body = (_FOLDER / "static" / f"page.{kind}").read_bytes()
        names[kind] = f"page.{hashlib.sha256(body).hexdigest()[:16]}.{kind}"
        files[STATIC + names[kind]] = body, content_type
    return names, files


def asset(path: str) -> Response | None:
    """Return a file that pages need, None for another path."""
    found = _assets()[1].get(path)
    return None if found is None else Response(found[0], 200, found[1], _ASSET_HEADERS)


@cache
def _templates() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    environment.filters["clean"] = lambda text: printable(str(text))
    environment.filters["segment"] = lambda name: quote(name, safe="")
    environment.globals.update(query=lambda **values: urlencode({key: v for key, v in values.items() if v}))
    return environment


def render(template: str, path: str, status: int = 200, **values: Any) -> Response:
    """Return a page. Its links are relative, since a proxy may have put a prefix in front of ``path``."""
    root = "../" * (path.count("/") - 1) or "./"
    text = _templates().get_template(template).render(assets=_assets()[0], root=root, **values)
    return Response(text.encode("utf-8", "replace"), status, _HTML, _HEADERS)


async def index(exchange: Exchange, sites: Iterable[Any], mode: str) -> Response:
    """Return the page at ``/`` of several services, which counts as a listing of each. Where ``mode`` is ``token`` it
    names none. Raise :class:`RateLimited`."""
    pages = [site.page for site in sites if site.page is not None]
    for page in pages:
        await page.operations.admit_discovery(Caller(exchange.record.address))
    shown = [{"mount": page.mount[1:], **page.about()} for page in pages] if mode == PUBLIC else []
    return render("index.html", exchange.request.safe_path, services=shown)


PUBLIC: Final = "public"
TOKEN: Final = "token"  # noqa: S105, a word


@dataclass(kw_only=True, eq=False)
class ServicePage:
    """Serve the pages of one service. ``unready`` returns why it cannot answer yet; ``calls`` has what is wrong
    with its calls; ``report`` says what a token says, and with a second text why it is refused."""

    settings: ResourceSettings
    operations: Operations
    search: ToolSearch
    unready: Callable[[], str | None]
    calls: Problem
    report: Callable[[str, str], TokenReport]

    def __post_init__(self) -> None:
        self.mode = self.settings.server.shown_page
        self.mount = self.settings.mount
        self._invocation = self.operations.invocation
        self._access, self._discovery = self._invocation.access, self._invocation.discovery
        takes_keys_alone = self.settings.auth.takes_keys and not self.settings.auth.traits.has_issuers
        self._key_variable = KEY_VARIABLE if takes_keys_alone else ""
        self._style = NameStyle(self.settings.catalog.names)
        self._curation = Curation(self.settings.catalog)
        self._is_local = self.settings.server.is_local and not self.settings.auth.traits.authenticates

    def about(self) -> dict[str, Any]:
        """Return what everybody may know of the service: its name, and its state in words."""
        info = self.operations.server_info(Caller()) if self._is_local else self.operations.public_info()
        listing, calls = self._discovery.problem.cause, self.calls.cause or self._discovery.astray.cause
        why = f" ({excerpt(listing or calls, 400)})" if self._is_local else ""
        if reason := self.unready():
            state, word = f"It cannot answer yet: {reason}.", "starting"
        elif listing:
            state, word = f"Its methods cannot be listed now{why}. Tools that are known already stay.", "in trouble"
        elif calls:
            state, word = f"Its calls get no answer now{why}.", "in trouble"
        else:
            state, word = "It answers.", "ready"
        names = [] if self.settings.section == "services" else [one.name for one in self.settings.services]
        about = info.members.get("description") or (f"The tools of {', '.join(names)}." if names else "")
        title = info.members.get("title") or self.settings.name or info.members["name"]
        return {"title": title, "about": about, "state": state, "word": word}

    async def overview(self, exchange: Exchange) -> Response:
        """Answer ``GET /?q=&group=&page=``: state, Connect, and the tools of this caller."""
        if (other := await self._instead(exchange)) is not None:
            return other
        catalog, refusal = await self._visible(exchange.caller)
        query = exchange.request.query
        words, group = query.get("q", "")[:500], query.get("group", "")[:200]
        tools = await self.search.rank(catalog, words) if words.strip() else sorted(catalog.tools, key=group_of)
        groups = groups_of(catalog.tools)
        if group:
            tools = [tool for tool in tools if group_of(tool) == group]
        number = int(query.get("page", "1")) if query.get("page", "1")[:5].isdecimal() else 1
        pages = max(1, -(-len(tools) // PAGE_SIZE))
        number = min(max(number, 1), pages)
        part = tools[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
        rows = [(name if not words else "", list(them)) for name, them in groupby(part, group_of)]
        if len(groups) < 2 or words:
            rows = [("", list(part))] if part else []
        return self._render(
            exchange, "service.html", connect=self._connect(exchange), refusal=refusal, rows=rows,
            total=len(catalog.tools), found=len(tools), words=words, group=group, groups=groups[:60],
            number=number, pages=pages,
            searches=self.search.replaces(catalog, self.settings.catalog.search),
            left_out=left_out(catalog, self.settings.catalog, self.settings.name) if self._is_local else [],
        )  # fmt: skip

    async def tool(self, exchange: Exchange) -> Response:
        """Answer ``GET /page/{tool}``: a tool as the model reads it, how it is called, and a form to try it."""
        if (other := await self._instead(exchange)) is not None:
            return other
        catalog, refusal = await self._visible(exchange.caller)
        tool = catalog.by_name.get(exchange.tool)
        if tool is None:
            message = refusal or f"You see no tool of this name here: {excerpt(exchange.tool, 128)}"
            return self._render(exchange, "none.html", 404, title="No such tool", message=message)
        projected = PROJECTOR.with_name_style(self._style).project(tool)
        return self._render(
            exchange, "tool.html", tool=tool, name=tool.name_for(self._style),
            llm_name=tool.name_for(NameStyle.LLM),
            shown=excerpt(jsonrpc.pretty(projected), _MOST_TEXT),
            tokens=len(jsonrpc.encode(projected)) // _BYTES_PER_TOKEN,
            arguments=rows_of_arguments(tool), hints=self._hints(tool), called=ways_of_calling(tool),
            scopes=self._access.scopes_to_call(tool),
            open=not self._access.needs_token(tool, self._discovery.current()), endpoint=self._url(exchange),
        )  # fmt: skip

    async def try_it(self, exchange: Exchange) -> Response:
        """Answer ``POST /page/{tool}`` with ``{arguments}``: faults, or what would be sent, before credentials, and the
        MCP request that does it. Nothing is sent."""
        body = jsonrpc.decode_strictly(exchange.take_body())
        if not isinstance(body, dict):
            raise InvalidRequest("The body must be an object with arguments")
        arguments = body.get("arguments", {})
        if not isinstance(arguments, dict):
            raise InvalidArguments('"arguments" must be an object')
        found = await self._invocation.preview(exchange.caller, exchange.tool, arguments)
        if "faults" in found:
            return Response(jsonrpc.encode(found))
        tool = await self._invocation.find_tool(exchange.caller, exchange.tool, PATIENCE)
        headers, message = call_request(tool, tool.name_for(self._style), arguments, "gateway-page")
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
        url = self._url(exchange)
        words = ["curl", "-s", url, *(word for pair in headers.items() for word in ("-H", ": ".join(pair)))]
        token = '-H "Authorization: Bearer $TOKEN" ' if exchange.caller.principal is not None else ""
        curl = f"{shlex.join(words)} {token}{shlex.join(['-d', message.decode()])}"
        request = {"url": f"{self.mount}/mcp", "headers": headers, "body": message.decode()}
        return Response(jsonrpc.encode({**found, "request": request, "curl": curl}))

    async def _instead(self, exchange: Exchange) -> Response | None:
        """Return the page in place of the one that is asked for: why a token is refused, the one without names, or that
        this caller asked too often. Each page counts as a listing."""
        refused = exchange.error
        try:
            with suppress(InsufficientScope):  # the page says which one is missing
                await self.operations.admit_discovery(Caller(exchange.record.address) if refused else exchange.caller)
        except RateLimited as error:
            exchange.note_error(error)
            return self._render(exchange, "none.html", error.status, title="Too many pages", message=error.message)
        if refused is not None:
            report = self.report(_raw(exchange), str(refused.message))
            if self.mode == TOKEN:
                report = report.without_what_is_wanted()
            return self._render(exchange, "whoami.html", 401, principal=None, report=report, accepted=False)
        if self.mode == TOKEN and exchange.caller.principal is None:
            return render("shell.html", exchange.request.safe_path)
        return None

    async def who_am_i(self, exchange: Exchange) -> Response:
        """Answer ``GET /page``: what the caller's token says, whether it is accepted, and what more scopes bring."""
        if (other := await self._instead(exchange)) is not None:
            return other
        principal = exchange.caller.principal
        if principal is None:
            return self._render(exchange, "whoami.html", principal=None, report=None, accepted=False)
        seen, refusal = await self._visible(exchange.caller)
        more = []
        if not refusal:
            whole = await self._discovery.catalog(exchange.caller, PATIENCE)
            more = self._more(principal, self._access.listable_catalog(exchange.caller, whole), seen)
        report = TokenReport.of_key(principal) if principal.token is None else self.report(_raw(exchange), "")
        return self._render(
            exchange, "whoami.html", principal=principal, report=report, more=more, accepted=True, refusal=refusal
        )

    def _more(self, principal: Principal, catalog: Catalog, seen: Catalog) -> list[tuple[str, int, list[str]]]:
        """Return each scope that a caller lacks, how many tools need it, and which of them the caller sees."""
        held, alike = {*self._access.requested_scopes(principal.scopes)}, dict[Demand, list[Tool]]()
        for tool in catalog.tools:
            alike.setdefault(tool.demand, []).append(tool)
        needing: dict[str, list[Tool]] = {}
        for tools in alike.values():
            for scope in {*self._access.scopes_to_call(tools[0])} - held:
                needing.setdefault(scope, []).extend(tools)
        return [
            (scope, len(tools), [tool.name_for(self._style) for tool in tools if tool.name in seen.by_name][:_SHOWN])
            for scope, tools in sorted(needing.items())[:_SHOWN]
        ]

    def _render(self, exchange: Exchange, template: str, status: int = 200, **values: Any) -> Response:
        """Return a page with what each page of the service has: its name and state, unless they are for callers with a
        token alone, where it is, and whether tokens are of use."""
        unnamed = {"title": "Gateway", "about": "", "state": "", "word": ""}
        caller, variable = exchange.caller.principal, self._key_variable
        about = unnamed if self.mode == TOKEN and caller is None else self.about()
        page = {**about, "mount": self.mount[1:], "takes_tokens": self._access.enabled,
                "subject": caller.subject if caller else "", "mode": self.mode, "key_variable": variable}  # fmt: skip
        return render(template, exchange.request.safe_path, status, page=page, **values)

    async def _visible(self, caller: Caller) -> tuple[Catalog, str]:
        """Return the tools of ``tools/list`` for this caller; none, and why not."""
        if not self._access.may_enter(caller.principal):
            return Catalog((), ""), "Its tools are shown to callers with a token."
        try:
            self._access.check_list(caller)
            return self._access.visible_catalog(caller, await self._discovery.catalog(caller, PATIENCE)), ""
        except GatewayError as error:
            return Catalog((), ""), str(error.message)

    def _url(self, exchange: Exchange) -> str:
        server = self.settings.server
        own = f"http{'s' if server.tls.cert_file else ''}://{exchange.request.host}"
        return f"{server.public_url or own}{self.mount}/mcp"

    def _connect(self, exchange: Exchange) -> dict[str, Any]:
        """Return the entry for each client, and the links that add it by themselves."""
        url, name = self._url(exchange), self.settings.name or "gateway"
        variable = self._key_variable
        clients = []
        for key, client in CLIENTS.items():
            takes_url = client.http is not None
            entry = client.render({name: client.entry((), url, key_variable=variable)}) if takes_url else ""
            then = client.then if takes_url else f"{client.instead_of_http}."
            clients.append({"key": key, "title": client.title, "entry": entry, "then": then, "place": client.place})
        shown = {key: CLIENTS[key].key(variable) if variable else {} for key in ("cursor", "vscode")}
        config = base64.b64encode(jsonrpc.encode({"url": url, **shown["cursor"]})).decode()
        vscode = quote(jsonrpc.encode({"name": name, "type": "http", "url": url, **shown["vscode"]}).decode(), safe="")
        links = {
            "cursor": f"cursor://anysphere.cursor-deeplink/mcp/install?{urlencode({'name': name, 'config': config})}",
            "vscode": f"vscode:mcp/install?{vscode}",
        }
        return {"url": url, "clients": clients, "links": links}

    def _hints(self, tool: Tool) -> list[tuple[str, Any, str]]:
        """Return each annotation, its value, and who said so."""
        own = self._curation.override_for(tool.method).annotations.model_dump(exclude_none=True)
        listed = "the service" if self.settings.catalog.trust_annotations else "the gateway, by the method's name"
        said = [(name, value, "the operator" if name in own else listed) for name, value in tool.annotations.items()]
        others = tool.meta.get("annotations", {})
        return [*said, *((name, others[name], "the service, not trusted") for name in HINTS if name in others)]


def _raw(exchange: Exchange) -> str:
    return exchange.request.headers.get("Authorization", "").partition(" ")[2].strip()
