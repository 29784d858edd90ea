"""What the site can do: the methods of jsonrpc_core and of jsonrpc_mcp's examples, run in memory."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

PAGE_FACTORY = r"Drupal\jsonrpc\ParameterFactory\PaginationParameterFactory"
ENTITY_FACTORY = r"Drupal\jsonrpc\ParameterFactory\EntityParameterFactory"
RAW_FACTORY = r"Drupal\jsonrpc\ParameterFactory\RawParameterFactory"

PAGE_SCHEMA = {
    "type": "object",
    "properties": {"limit": {"type": "integer", "minimum": 0}, "offset": {"type": "integer", "minimum": 0}},
}
ENTITY_SCHEMA = {"type": "object", "properties": {"type": {"type": "string"}, "uuid": {"type": "string"}}}


class MethodError(Exception):
    """A JsonRpcException that a method throws."""

    def __init__(self, code: int, message: str, data: str) -> None:
        super().__init__(data)
        self.error = {"code": code, "message": message, "data": data}


@dataclass(frozen=True)
class Parameter:
    """`schema` is resolved from the factory when there is one; the attributes then do not repeat it."""

    name: str
    schema: dict[str, Any]
    factory: str | None = None
    description: str | None = None
    required: bool = False


@dataclass(frozen=True)
class Tool:
    """The attribute #[McpTool]: what jsonrpc_mcp adds to a method."""

    title: str
    output: dict[str, Any]
    annotations: dict[str, Any]


@dataclass(frozen=True)
class Method:
    id: str
    usage: str
    usage_de: str
    permission: str
    run: Callable[["Site", dict[str, Any]], Any]
    parameters: tuple[Parameter, ...] = ()
    tool: Tool | None = None
    breaks_output_schema: bool = False

    def usage_in(self, language: str) -> str:
        return self.usage_de if language == "de" else self.usage


@dataclass
class Site:
    """What a caller can change, and what a cache rebuild forgets."""

    maintenance: bool = False
    granted: list[tuple[str, str]] = field(default_factory=list)
    describe_cache: tuple[int, str] | None = None

    def rebuild_caches(self) -> bool:
        self.describe_cache = None
        return True


PLUGINS = {
    "plugin.manager.queue_worker": [],
    "plugin.manager.block": ["broken", "page_title_block", "system_branding_block", "system_main_block"],
    "plugin.manager.element_info": ["button", "checkbox", "container", "textfield"],
}
ROLES = {"1f6ad1a0-3c3f-4f2b-9e9e-0d6a3d1c7b01": "editor", "1f6ad1a0-3c3f-4f2b-9e9e-0d6a3d1c7b02": "api"}
ARTICLES = [
    {"nid": nid, "title": title, "created": 1795219901} for nid, title in enumerate(("First", "Second", "Third"), 1)
]


def _page(items: list[Any], page: dict[str, int] | None) -> list[Any]:
    page = page or {}
    offset = page.get("offset", 0)
    return items[offset : offset + page.get("limit", len(items))]


def _list_plugins(site: Site, arguments: dict[str, Any]) -> Any:
    service = arguments["service"]
    if service not in PLUGINS:
        raise MethodError(-32602, "Invalid Params", f'You have requested a non-existent service "{service}".')
    return _page(PLUGINS[service], arguments.get("page"))


def _maintenance(site: Site, arguments: dict[str, Any]) -> Any:
    """The name lies: it switches. Without a value it switches off."""
    site.maintenance = bool(arguments.get("enabled"))
    return "enabled" if site.maintenance else "disabled"


def _add_permission(site: Site, arguments: dict[str, Any]) -> Any:
    role = ROLES.get((arguments.get("role") or {}).get("uuid", ""))
    if role is None:
        raise MethodError(-32602, "Invalid Params", "The requested entity could not be found.")
    site.granted.append((role, arguments.get("permission", "")))
    return 2  # SAVED_UPDATED


def _to_markdown(site: Site, arguments: dict[str, Any]) -> Any:
    for article in ARTICLES:
        if article["nid"] == arguments["nid"]:
            return f"# {article['title']}\n\n{article['title']}Body of {article['title']}"
    raise MethodError(-32602, "Invalid Params", f"Node with ID {arguments['nid']} not found")


def _array_of(**properties: tuple[str, str]) -> dict[str, Any]:
    members = {name: {"type": kind, "description": text} for name, (kind, text) in properties.items()}
    return {"type": "array", "items": {"type": "object", "properties": members, "required": list(properties)}}


_ALL = (
    Method(
        "route_builder.rebuild",
        "Rebuilds the application's router. Result is TRUE if the rebuild succeeded, FALSE otherwise",
        "Baut den Router der Anwendung neu auf. Das Ergebnis ist TRUE bei Erfolg, sonst FALSE",
        "administer site configuration",
        lambda site, arguments: True,
    ),
    Method(
        "maintenance_mode.isEnabled",
        "Enables or disables the maintenance mode.",
        "Schaltet den Wartungsmodus ein oder aus.",
        "administer site configuration",
        _maintenance,
        (Parameter("enabled", {"type": "boolean"}),),
    ),
    Method(
        "user_permissions.add_permission_to_role",
        "Add the given permission to the specified role.",
        "Fügt die angegebene Berechtigung zur genannten Rolle hinzu.",
        "administer permissions",
        _add_permission,
        (Parameter("permission", {"type": "string"}), Parameter("role", ENTITY_SCHEMA, ENTITY_FACTORY)),
    ),
    Method(
        "cache.rebuild",
        "Rebuilds the system cache.",
        "Baut den Systemcache neu auf.",
        "administer site configuration",
        lambda site, arguments: site.rebuild_caches(),
    ),
    Method(
        "user_permissions.list",
        "List all the permissions available in the site.",
        "Listet alle Berechtigungen der Website auf.",
        "administer permissions",
        lambda site, arguments: [],
        (Parameter("page", PAGE_SCHEMA, PAGE_FACTORY),),
        breaks_output_schema=True,
    ),
    Method(
        "plugins.list",
        "List defined plugins.",
        "Listet die definierten Plugins auf.",
        "administer site configuration",
        _list_plugins,
        (
            Parameter("page", PAGE_SCHEMA, PAGE_FACTORY),
            Parameter("service", {"type": "string"}, required=True),
        ),
    ),
    Method(
        "examples.articles.list",
        "Lists article nodes with optional pagination",
        "Listet Artikel auf, auf Wunsch seitenweise",
        "access content",
        lambda site, arguments: _page(ARTICLES, arguments.get("page")),
        (Parameter("page", PAGE_SCHEMA, PAGE_FACTORY, "Pagination parameters (offset and limit)"),),
        Tool(
            "List Articles",
            _array_of(
                nid=("integer", "Node ID"),
                title=("string", "Article title"),
                created=("integer", "Creation timestamp"),
            ),
            {"category": "content", "supports_pagination": True},
        ),
    ),
    Method(
        "examples.contentTypes.list",
        "Lists all available content types",
        "Listet alle verfügbaren Inhaltstypen auf",
        "access content",
        lambda site, arguments: [{"id": "article", "label": "Article"}],
        (),
        Tool(
            "List Content Types",
            _array_of(
                id=("string", "Content type machine name"),
                label=("string", "Content type human-readable label"),
            ),
            {
                "category": "discovery",
                "auth": {
                    "scopes": ["tutorial:read", "tutorial:search"],
                    "description": "Requires content read and write access",
                    "level": "required",
                },
            },
        ),
    ),
    Method(
        "examples.article.toMarkdown",
        "Retrieves an article node and formats it as markdown",
        "Liest einen Artikel und gibt ihn als Markdown aus",
        "view article bodies",
        _to_markdown,
        (Parameter("nid", {"type": "integer", "minimum": 1}, None, "The node ID of the article", required=True),),
        Tool(
            "Get Article as Markdown",
            {"type": "string", "description": "Article content formatted as markdown"},
            {"category": "content", "returns": "markdown"},
        ),
    ),
)

METHODS = {method.id: method for method in _ALL}
