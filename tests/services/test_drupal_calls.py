"""Calls to a Drupal site: the shape of params, results, errors that say enough and not too much."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.front import SURFACES, Surface, front
from tests.services.drupal_users import as_user, basic, bearer
from tests.services.launch import Drupal

Site = Callable[..., Drupal]

VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])
ON_EVERY_SURFACE = pytest.mark.parametrize("surface", SURFACES)
BLOCKS = "plugin.manager.block"
INSIDES = ("Drupal\\", "Adaptor", "<html", "<!DOCTYPE", "Apache", "/var/", ".php", "-326")


def bodies(site: Drupal) -> list[dict[str, Any]]:
    """What was posted to /jsonrpc."""
    return [json.loads(seen["body"]) for seen in site.requests() if seen["method"] == "POST"]


@VERSIONS
@ON_EVERY_SURFACE
async def test_calls_bring_the_sites_results(drupal: Site, version: int, surface: Surface) -> None:
    async with front(drupal(version=version).url, *as_user(basic("admin"))) as gateway:
        for tool, arguments, result in (
            ("plugins.list", {"service": BLOCKS, "page": {"offset": 1, "limit": 1}}, ["page_title_block"]),
            ("maintenance_mode.isEnabled", {"enabled": True}, "enabled"),
            ("maintenance_mode.isEnabled", {"enabled": False}, "disabled"),
            ("cache.rebuild", {}, True),
            ("route_builder.rebuild", {}, True),
            ("examples.contentTypes.list", {}, [{"id": "article", "label": "Article"}]),
            ("examples.article.toMarkdown", {"nid": 1}, "# First\n\nFirstBody of First"),
        ):
            assert (await gateway.call(surface, tool, arguments)).value == result


@VERSIONS
async def test_params_is_an_object_or_absent_and_an_id_is_a_string(drupal: Site, version: int) -> None:
    site = drupal(version=version)
    async with front(site.url, *as_user(basic("admin"))) as gateway:
        site.forget_requests()
        await gateway.call("modern", "cache.rebuild", {})
        await gateway.call("modern", "examples.articles.list", {})
        await gateway.call("modern", "plugins.list", {"service": BLOCKS})
    without, empty, full = bodies(site)
    assert "params" not in without
    assert empty["params"] == {}
    assert full["params"] == {"service": BLOCKS}
    assert [type(body["id"]) for body in (without, empty, full)] == [str, str, str]
    assert {body["jsonrpc"] for body in (without, empty, full)} == {"2.0"}


@pytest.mark.parametrize("structure", ["auto", "by-name"])
async def test_no_array_is_ever_sent(drupal: Site, structure: str) -> None:
    """Drupal would take it, answer 200, and run the method without its arguments."""
    site = drupal(version=3)
    async with front(site.url, *as_user(basic("admin")), f"backend.params.structure={structure}") as gateway:
        site.forget_requests()
        for tool in await gateway.tools():
            arguments = {"service": BLOCKS} if tool == "plugins_list" else {}
            for surface in SURFACES:
                await gateway.call(surface, tool, {"nid": 1} if tool.endswith("toMarkdown") else arguments)
    posted = bodies(site)
    assert len(posted) == 27
    assert [body for body in posted if isinstance(body, list) or isinstance(body.get("params"), list)] == []


@VERSIONS
@ON_EVERY_SURFACE
async def test_errors_of_a_method_say_why_without_the_sites_inside(
    drupal: Site, version: int, surface: Surface
) -> None:
    async with front(drupal(version=version).url, *as_user(basic("admin"))) as gateway:
        for tool, arguments, message in (
            (
                "plugins.list",
                {"service": "nope"},
                'Invalid Params: You have requested a non-existent service "nope".',
            ),
            ("examples.article.toMarkdown", {"nid": 77}, "Invalid Params: Node with ID 77 not found"),
            ("user_permissions.list", {}, "Internal Error: Array is an invalid type for foo"),
        ):
            called = await gateway.call(surface, tool, arguments)
            assert called.message == message
            assert called.status == (500 if surface == "rest" else 200)
            assert [inside for inside in INSIDES if inside in called.everything] == []


@ON_EVERY_SURFACE
async def test_class_names_in_an_error_are_taken_out(drupal: Site, surface: Surface) -> None:
    """The site checks what our copy of its schema let pass, and names its classes when it complains."""
    looser = 'catalog.tools={"plugins.list": {arguments: {service: {schema: {}}}}}'
    async with front(drupal().url, *as_user(basic("admin")), looser) as gateway:
        called = await gateway.call(surface, "plugins.list", {"service": 5})
        assert "The service parameter does not conform to the parameter schema" in called.message
        assert "Adaptor [class] received invalid input data" in called.message
        assert "Drupal\\" not in called.text
        assert "RawParameterFactory" not in called.text


@VERSIONS
@ON_EVERY_SURFACE
async def test_access_denied_within_a_200_is_a_denial(drupal: Site, version: int, surface: Surface) -> None:
    listing = as_user(basic("admin"), "backend.listing.credentials")
    async with front(drupal(version=version).url, *listing, *as_user(bearer("editor"))) as gateway:
        called = await gateway.call(surface, "cache.rebuild", {})
        assert "Access Denied: The 'administer site configuration' permission is required." in called.message
        if surface == "rest":
            assert (called.status, called.code) == (403, "access_denied")
        assert (await gateway.call(surface, "examples.contentTypes.list", {})).value[0]["id"] == "article"


@ON_EVERY_SURFACE
@pytest.mark.parametrize(
    ("credential", "status", "message"),
    [
        (None, 502, "The backend does not accept the gateway's credential"),
        ("Bearer junk-junk", 502, "The backend does not accept the gateway's credential"),
        (basic("admin", "wrong"), 403, "The backend refuses this caller (HTTP 403)"),
    ],
    ids=["none", "unknown-token", "wrong-password"],
)
async def test_pages_of_html_never_leak(
    drupal: Site, surface: Surface, credential: str | None, status: int, message: str
) -> None:
    listing = as_user(basic("admin"), "backend.listing.credentials")
    async with front(drupal().url, *listing, *as_user(credential)) as gateway:
        called = await gateway.call(surface, "cache.rebuild", {})
        assert called.message == message
        assert called.status == (status if surface == "rest" else 200)
        assert [inside for inside in (*INSIDES, "Skip to main content") if inside in called.everything] == []
        assert "WWW-Authenticate" not in called.headers


async def test_a_clients_own_authorization_is_dropped(drupal: Site) -> None:
    site = drupal()
    async with front(site.url, *as_user(bearer("editor"))) as gateway:
        site.forget_requests()
        mine = {"Authorization": bearer("admin"), "Cookie": "SESS=1"}
        await gateway.call("modern", "examples.articles.list", {}, mine)
        await gateway.tools("rest", mine)
    (seen,) = site.requests()
    assert seen["headers"]["authorization"] == bearer("editor")
    assert "cookie" not in seen["headers"]


@ON_EVERY_SURFACE
async def test_the_credential_is_in_no_answer(drupal: Site, surface: Surface) -> None:
    async with front(drupal(mcp=True).url, *as_user(bearer("admin"))) as gateway:
        assert "tok-admin" not in str(await gateway.tools(surface))
        for tool, arguments in (("examples.articles.list", {}), ("examples.article.toMarkdown", {"nid": 77})):
            assert "tok-admin" not in (await gateway.call(surface, tool, arguments)).everything
