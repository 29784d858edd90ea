"""The files that derive from the settings and the dialects are those that `make config` would write, and they load."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gateway.cli.config_reference import STARTER, render
from gateway.config.source import ConfigError, load_settings
from gateway.config.strict_yaml import read_yaml
from gateway.credentials import MODES
from gateway.listing import static
from gateway.listing.reader import DIALECTS
from gateway.settings import CatalogSettings, Settings, ToolOverride, is_loopback
from gateway.settings.paths import documents, knobs
from tests.each import each
from tests.house import LIMITS
from tests.reference_pages import PAGES, configuration, dialects

ROOT = Path(__file__).parents[2]
FILES = {
    "config/gateway.yaml": "yaml",
    "config/gateway.schema.json": "json",
    "config/methods.schema.json": "methods",
}
EXAMPLES = ROOT / "config" / "examples"
GATEWAYS = sorted(EXAMPLES.glob("*.yaml"))
LISTINGS = sorted(EXAMPLES.glob("*/*.yaml"))


class AnyVariable(dict[str, str]):
    """An environment in which every variable is set."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return f"value-of-{name}"


@each(("file", "form"), FILES.items())
def test_a_derived_file_is_up_to_date(file: str, form: str) -> None:
    assert (ROOT / file).read_text() == render(form), f"{file} is stale: make config"


@each("page", [*PAGES])
def test_a_derived_page_is_up_to_date(page: Path) -> None:
    assert page.read_text() == PAGES[page](), f"{page.name} is stale: make config"


def test_the_commented_file_loads_and_says_the_defaults_once_the_backends_audience_is_said() -> None:
    commented = ROOT / "config" / "gateway.yaml"
    with pytest.raises(ConfigError) as caught:
        load_settings(commented, (), {})
    (fault,) = caught.value.faults
    assert fault.startswith("backend.credentials.backend_audience: ")
    audience = "http://127.0.0.1:8080/mcp"
    loaded = load_settings(commented, (f"backend.credentials.backend_audience={audience}",), {})
    issuers = [{"issuer": issuer.issuer} for issuer in loaded.auth.issuers]
    backend = {"url": loaded.backend.url, "credentials": {"backend_audience": audience}}
    assert loaded == Settings.model_validate({"backend": backend, "auth": {"issuers": issuers}})


@each("form", ["json", "yaml"])
def test_the_derived_files_say_what_each_mode_of_credentials_shows(form: str) -> None:
    assert all(f"{mode.name}: {mode.shows}." in render(form) for mode in MODES.values())


def test_the_schema_for_editors_knows_the_modes_and_no_other() -> None:
    schema = json.loads(render("json"))
    for mode in ("auto", *MODES):
        jsonschema.validate({"backend": {"url": "http://h/", "credentials": {"mode": mode}}}, schema)
    with pytest.raises(jsonschema.ValidationError, match="is not one of"):
        jsonschema.validate({"backend": {"url": "http://h/", "credentials": {"mode": "statik"}}}, schema)


def test_the_starter_has_twelve_lines_and_only_what_may_be_set() -> None:
    assert STARTER.count("\n") == 12
    tree = read_yaml(STARTER, "starter")
    jsonschema.validate(tree, json.loads(render("json")))
    assert Settings.model_validate(tree).auth.mode == "jwt"


def test_the_starter_loads_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(STARTER)
    assert load_settings(file, (), {}).by_mount[""].resource == "https://gw.example.com/mcp"


def test_there_are_few_enough_knobs_to_read() -> None:
    """Each path once, whatever holds others included; a document is one."""
    paths = [path for path, _ in knobs()]
    assert len(paths) == len(set(paths))
    assert len(paths) <= LIMITS[max(LIMITS)].knobs


def test_a_document_is_described_below_the_knobs() -> None:
    page = configuration()
    described = {path for path, _ in documents()}
    assert {"backend.listing.custom", "catalog.tools.*.arguments.*", "mcp.server.about.icons.*"} <= described
    for path, model in documents():
        members = page.partition(f"Members of `{path}`:")[2].partition("Members of")[0]
        assert all(f"| `{field.alias or name}` |" in members for name, field in model.model_fields.items())


@each("file", [*GATEWAYS, *LISTINGS, ROOT / "config/gateway.yaml"])
def test_an_editor_finds_the_schema_of_every_file(file: Path) -> None:
    (schema,) = re.findall(r"^# yaml-language-server: \$schema=(.+)$", file.read_text(), re.MULTILINE)
    assert (file.parent / schema).is_file()


def test_the_schema_for_editors_has_a_name() -> None:
    assert json.loads(render("json"))["$id"].startswith("urn:")


def test_the_commented_file_has_every_knob() -> None:
    tree = yaml.safe_load((ROOT / "config" / "gateway.yaml").read_text())

    values = {path for path, _ in documents()}

    def paths(node: Any, path: str) -> set[str]:
        if not isinstance(node, dict) or not node or path in values:
            return {path}
        return set().union(*(paths(child, f"{path}.{key}".lstrip(".")) for key, child in node.items()))

    assert paths(tree, "") == {path for path, _ in knobs() if "*" not in path} - {"services", "groups"}


def test_the_commented_file_shows_the_knobs_of_a_tool_as_a_comment_that_could_stand_there() -> None:
    commented = (ROOT / "config" / "gateway.yaml").read_text().partition("\n  tools: {}\n")[2].partition("\n\n")[0]
    tools = yaml.safe_load("\n".join(line.removeprefix("  #") for line in commented.splitlines()))
    assert CatalogSettings.model_validate({"tools": tools}).tools["method.or.pattern.*"] == ToolOverride()
    shown = {f"catalog.tools.*.{name}" for name in tools["method.or.pattern.*"]}
    assert shown == {path for path, _ in knobs() if path.startswith("catalog.tools.*.")}


def test_the_schema_for_editors_is_one_and_accepts_the_commented_file() -> None:
    schema = json.loads(render("json"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load((ROOT / "config" / "gateway.yaml").read_text()), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"backend": {"url": "http://h/", "urll": 1}}, schema)


def test_the_reference_page_names_every_knob() -> None:
    page = configuration()
    assert all(f"| `{path}` |" in page for path, _ in knobs())


def test_the_page_of_dialects_names_each_and_links_to_what_is_there() -> None:
    text = dialects()
    assert all(f"\n| `{name}` | " in text and f"\n**{name}**: " in text for name in DIALECTS)
    targets = {target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", text)}
    assert all((ROOT / "docs" / target).is_file() for target in targets)


@each("example", GATEWAYS)
def test_every_example_loads(example: Path) -> None:
    for service in load_settings(example, (), AnyVariable()).by_mount.values():
        assert service.backend.url.startswith("http")
        assert service.backend.listing.file is None or Path(service.backend.listing.file).is_file()
        assert service.auth.mode == "jwt" or is_loopback(service.server.host)


@each("example", GATEWAYS)
def test_the_schema_for_editors_accepts_every_example(example: Path) -> None:
    jsonschema.validate(read_yaml(example.read_text(), example.name), json.loads(render("json")))


def test_the_schema_for_editors_knows_several_services() -> None:
    schema, backend = json.loads(render("json")), {"url": "http://h/"}
    for good in ({"services": {"crm": {"backend": backend}}}, {"backend": backend}):
        jsonschema.validate(good, schema)
    for bad in (
        {"services": {"crm": {"backend": backend}}, "backend": backend},
        {"services": {"Crm": {"backend": backend}}},
        {"services": {"crm": {"backend": backend, "server": {}}}},
        {"services": {"crm": {"backend": {"urll": "http://h/"}}}},
        {"services": {}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, schema)


@each("example", LISTINGS)
def test_every_example_of_a_listing_file_lists_methods(example: Path) -> None:
    assert static.parse_listing(yaml.safe_load(example.read_text())).methods


def test_there_are_examples() -> None:
    assert GATEWAYS
    assert LISTINGS
