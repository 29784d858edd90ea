"""Names of knobs in the environment and on the command line."""

from __future__ import annotations

from gateway.config.layers import environment_name, mistaken_names
from gateway.config.source import load_settings
from gateway.settings.paths import find_knob, knobs
from tests.configuring import ENVIRONMENT, URL
from tests.each import each
from tests.unit.test_config_outside_the_file import by_environment, faults


def test_every_knob_is_found_by_its_name_in_the_environment() -> None:
    for path, _ in knobs():
        keys = path.replace("*", "m").split(".")
        if not {"issuers", "icons"} & set(keys):  # entries of a list have no names
            found = find_knob(environment_name(keys).removeprefix("GATEWAY__").lower().split("__"))
            assert found is not None, path
            assert found.path == tuple(keys)


@each(
    ("name", "meant"),
    [
        ("GATEWAY__BACKEND__ULR", "GATEWAY__BACKEND__URL"),
        ("GATEWAY__BACKEND_URL", "GATEWAY__BACKEND__URL"),
        ("GATEWAY__SERVER__PUBLICURL", "GATEWAY__SERVER__PUBLIC_URL"),
        ("GATEWAY__BACKEND__CREDENTIALS__PASSWORDS_FILE", "GATEWAY__BACKEND__CREDENTIALS__PASSWORD"),
        ("GATEWAY__CATALOG__TOOLS__ADD__TITEL", "GATEWAY__CATALOG__TOOLS__ADD__TITLE"),
        ("GATEWAY__SERVER__PORT__X", "GATEWAY__SERVER__PORT"),
        ("GATEWAY__CATALOGUE", "GATEWAY__CATALOG"),
    ],
)
def test_a_name_that_is_no_knob_is_a_fault_with_the_nearest(name: str, meant: str) -> None:
    told = faults(lambda: load_settings(None, (), {**ENVIRONMENT, name: "hunter2"}))
    assert told == (f"{name}: is not a knob; did you mean {meant}?",)


def test_a_name_that_is_like_no_knob_is_a_fault_too() -> None:
    for name in ("GATEWAY__", "GATEWAY__XYZZY", "GATEWAY__AUTH__ISSUERS__0__ISSUER"):
        (told,) = faults(lambda name=name: load_settings(None, (), {**ENVIRONMENT, name: "x"}))  # type: ignore[misc]
        assert told.startswith(f"{name}: is not a knob")


def test_a_name_with_one_underscore_too_few_is_remarked() -> None:
    environ = {
        **ENVIRONMENT,
        "GATEWAY_BACKEND_URL": "x",
        "GATEWAY_CONFIG": "x",
        "GATEWAY_HOME": "x",
        "GATEWAY_MCP": "x",
    }
    backend, mcp = mistaken_names(environ)
    assert backend == (
        "GATEWAY_BACKEND_URL is not read: names of knobs begin GATEWAY__; did you mean GATEWAY__BACKEND__URL?"
    )
    assert mcp.startswith("GATEWAY_MCP is not read")
    assert load_settings(None, (), environ).backend.url == URL


def test_case_does_not_count_where_the_environment_has_capitals() -> None:
    made = by_environment("catalog.tools.m.annotations.readOnlyHint", "true")
    assert made.catalog.tools["m"].annotations.readOnlyHint is True
