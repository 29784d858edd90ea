"""What of a Drupal site becomes tools: versions of jsonrpc, jsonrpc_mcp, users, languages, missing credentials."""

from collections.abc import Callable

import pytest

from tests.front import SURFACES, front, shown
from tests.program import run, settings
from tests.services.drupal_users import as_user, basic, bearer
from tests.services.launch import Drupal

Site = Callable[..., Drupal]

CHOSEN = ["examples.article.toMarkdown", "examples.articles.list", "examples.contentTypes.list"]
ALL = [
    "cache.rebuild",
    *CHOSEN,
    "maintenance_mode.isEnabled",
    "plugins.list",
    "route_builder.rebuild",
    "user_permissions.add_permission_to_role",
    "user_permissions.list",
]
PAGE = {
    "type": "object",
    "properties": {"limit": {"type": "integer", "minimum": 0}, "offset": {"type": "integer", "minimum": 0}},
}
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


@VERSIONS
async def test_parameters_types_and_required_are_the_sites_own(drupal: Site, version: int) -> None:
    async with front(drupal(version=version).url, *as_user(basic("admin"))) as gateway:
        tools = await gateway.tools()
    assert list(tools) == shown("modern", *ALL)
    assert tools["plugins_list"] == {
        "name": "plugins_list",
        "description": "List defined plugins.",
        "inputSchema": {
            "type": "object",
            "properties": {"page": PAGE, "service": {"type": "string"}},
            "required": ["service"],
        },
    }
    assert tools["examples_article_toMarkdown"]["inputSchema"]["properties"] == {
        "nid": {"type": "integer", "minimum": 1, "description": "The node ID of the article"}
    }
    assert tools["cache_rebuild"]["inputSchema"] == {"type": "object", "properties": {}}


async def test_a_method_without_usage_is_described_by_its_name(drupal: Site) -> None:
    async with front(drupal(version=1).url, *as_user(basic("admin"))) as gateway:
        assert (await gateway.tools())["route_builder_rebuild"]["description"] == "route_builder.rebuild"


async def test_details_are_asked_for_only_where_the_collection_lacks_them(drupal: Site) -> None:
    for version, expected in ((1, 9), (2, 0), (3, 0)):
        site = drupal(version=version)
        site.forget_requests()
        async with front(site.url, *as_user(basic("admin"))) as gateway:
            await gateway.tools()
        details = [seen for seen in site.requests() if seen["path"].startswith("/jsonrpc/methods/")]
        assert len(details) == expected, version


@pytest.mark.parametrize("page_size", [2, 50])
async def test_the_set_of_jsonrpc_mcp_is_the_catalog(drupal: Site, page_size: int) -> None:
    site = drupal(mcp=True, page_size=page_size)
    site.forget_requests()
    async with front(site.url, *as_user(bearer("admin"))) as gateway:
        for surface in SURFACES:
            assert list(await gateway.tools(surface)) == shown(surface, *CHOSEN)
            called = await gateway.call("rest", "cache.rebuild", {})
            assert (called.status, called.code) == (404, "tool_not_found")
    paths = [seen["path"] for seen in site.requests()]
    assert paths.count("/mcp/tools/list") == 1
    assert len([path for path in paths if "cursor=" in path]) == (1 if page_size == 2 else 0)
    assert [path for path in paths if "describe" in path] == []
    assert [seen["path"] for seen in site.requests() if "cache.rebuild" in seen["body"]] == []


async def test_jsonrpc_mcp_gives_titles_output_schemas_and_annotations(drupal: Site) -> None:
    async with front(drupal(mcp=True).url, *as_user(bearer("admin"))) as gateway:
        modern, legacy, rest = [await gateway.tools(surface) for surface in SURFACES]
    tool = modern["examples_contentTypes_list"]
    assert tool["title"] == "List Content Types"
    assert tool["inputSchema"] == {"type": "object", "properties": {}}
    assert tool["outputSchema"]["items"]["required"] == ["id", "label"]
    assert tool["_meta"]["annotations"]["auth"]["scopes"] == ["tutorial:read", "tutorial:search"]
    assert "annotations" not in tool
    assert legacy["examples_contentTypes_list"]["outputSchema"]["properties"]["result"] == tool["outputSchema"]
    assert rest["examples.contentTypes.list"]["annotations"] == tool["_meta"]["annotations"]
    assert {shown["requiresAuth"] for shown in rest.values()} == {False}, "nobody is asked for a token here"


@pytest.mark.parametrize(
    ("credential", "names"),
    [
        (basic("admin"), ALL),
        (bearer("admin"), ALL),
        (basic("editor"), ["examples.articles.list", "examples.contentTypes.list"]),
        (bearer("editor"), ["examples.articles.list", "examples.contentTypes.list"]),
        (bearer("api"), []),
    ],
    ids=["admin-basic", "admin-bearer", "editor-basic", "editor-bearer", "api-bearer"],
)
async def test_each_user_is_offered_what_that_user_may_call(drupal: Site, credential: str, names: list[str]) -> None:
    async with front(drupal(version=3).url, *as_user(credential)) as gateway:
        for surface in SURFACES:
            assert list(await gateway.tools(surface)) == shown(surface, *names)


async def test_with_jsonrpc_mcp_too_each_user_is_offered_what_that_user_may_call(drupal: Site) -> None:
    for user, names in (("editor", CHOSEN[1:]), ("api", CHOSEN)):
        async with front(drupal(mcp=True).url, *as_user(bearer(user))) as gateway:
            assert list(await gateway.tools()) == shown("modern", *names)


async def test_a_user_who_may_call_nothing_is_told_so_by_check(drupal: Site) -> None:
    ran = await run("check", *settings(drupal().url, *as_user(bearer("api"))))
    assert ran.code == 1
    assert "There are no tools to offer." in ran.err
    assert "dialect      drupal" in ran.out


@pytest.mark.parametrize("mcp", [False, True])
@pytest.mark.parametrize("credential", [None, "Bearer junk-junk", basic("admin", "wrong")])
async def test_without_valid_credentials_check_says_that_it_wants_some(
    drupal: Site, mcp: bool, credential: str | None
) -> None:
    ran = await run("check", *settings(drupal(mcp=mcp).url, *as_user(credential)))
    assert ran.code == 3
    assert "dialect" not in ran.out
    *_, cause, what_next = ran.err.splitlines()
    if credential is None:
        assert cause.startswith("cause        It wants credentials, and none are sent (HTTP 40")
        assert what_next.startswith("next         Set backend.credentials, ")
    else:
        assert cause.startswith("cause        It refuses the credentials that are sent")
        assert what_next == "next         Correct backend.credentials, whose mode is static."
    assert "<html" not in ran.err
    assert credential is None or credential.split()[1] not in ran.said


async def test_without_a_listing_clients_get_503_rather_than_an_empty_list(drupal: Site) -> None:
    async with front(drupal().url) as gateway:
        called = await gateway.call("rest", "cache.rebuild", {})
        assert (called.status, called.code) == (503, "catalog_unavailable")
        assert 1 <= int(called.headers["Retry-After"]) <= 30
        assert (await gateway.call("modern", "cache.rebuild", {})).status == 503
        assert (await gateway.call("legacy", "cache.rebuild", {})).status == 503


async def test_a_narrower_list_that_is_denied_is_not_widened(drupal: Site) -> None:
    """jsonrpc_mcp takes no password, jsonrpc does: its nine methods are not what the site's owner chose."""
    ran = await run("check", *settings(drupal(mcp=True).url, *as_user(basic("admin"))))
    assert ran.code == 3
    assert "cause        jsonrpc_mcp refuses these credentials its list, and jsonrpc gives its own." in ran.err
    assert "next         Set backend.listing.dialect: drupal, to offer all that jsonrpc lists, or use" in ran.err
    explicit = settings(drupal(mcp=True).url, "backend.listing.dialect=drupal", *as_user(basic("admin")))
    assert "tools        9" in (await run("check", *explicit)).out


@pytest.mark.parametrize("mcp", [False, True])
async def test_the_configured_language_is_that_of_the_shared_listing(drupal: Site, mcp: bool) -> None:
    for language, text in (("de", "Listet alle verfügbaren Inhaltstypen auf"), ("en", "Lists all available content")):
        knobs = (*as_user(bearer("admin")), f"backend.listing.language={language}")
        async with front(drupal(mcp=mcp).url, *knobs) as gateway:
            for surface in SURFACES:
                (name,) = shown(surface, "examples.contentTypes.list")
                tool = (await gateway.tools(surface))[name]
                assert tool["description"].startswith(text)


async def test_a_clients_own_language_does_not_change_the_shared_listing(drupal: Site) -> None:
    site = drupal()
    site.forget_requests()
    german = {"Accept-Language": "de-DE,de;q=0.9"}
    async with front(site.url, *as_user(basic("admin")), "catalog.ttl=1s") as gateway:
        for surface in SURFACES:
            for headers in (german, {}):
                tools = await gateway.tools(surface, headers)
                assert tools[shown(surface, "cache.rebuild")[0]]["description"] == "Rebuilds the system cache."
        await gateway.call("modern", "cache.rebuild", {}, german)
    assert {seen["headers"].get("accept-language") for seen in site.requests()} == {None}
