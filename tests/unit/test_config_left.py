"""Knobs that left: each is a fault that says what to write instead, wherever it stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.config.layers import LEFT, environment_name
from gateway.config.source import ConfigError, load_settings
from gateway.settings.paths import find_knob
from tests.configuring import ENVIRONMENT, URL
from tests.each import each

SERVICE = ("backend.", "catalog.", "auth.", "limits.", "mcp.")


def keys_of(knob: str) -> list[str | int]:
    """The path of a knob, with an index for an entry of a list and a name for one of a map."""
    issuers = knob.startswith("auth.issuers")
    return [(0 if issuers else "m") if key == "*" else key for key in knob.split(".")]


def put(tree: Any, keys: list[str | int], value: Any) -> Any:
    """A tree with a value at a path."""
    if not keys:
        return value
    key, *rest = keys
    if isinstance(key, int):
        return [put({"issuer": "https://login.example.com"}, rest, value)]
    return {**tree, key: put(tree.get(key, {}), rest, value)}


def told(tmp_path: Path, tree: Any, *overrides: str, environ: dict[str, str] | None = None) -> tuple[str, ...]:
    file = tmp_path / "gateway.yaml"
    file.write_text(json.dumps(tree))
    with pytest.raises(ConfigError) as caught:
        load_settings(file, overrides, environ or {})
    return caught.value.faults


def service() -> dict[str, Any]:
    return {"backend": {"url": URL}, "auth": {"mode": "off"}}


@each(("knob", "now"), LEFT.items())
def test_a_knob_that_left_names_its_successor(tmp_path: Path, knob: str, now: str) -> None:
    keys = keys_of(knob)
    path = ".".join(map(str, keys))
    assert told(tmp_path, put(service(), keys, "s3cret")) == (
        f"{path}: left in this release; {now} (in a file: config migrate)",
    )
    if 0 not in keys:
        assert told(tmp_path, service(), f"{path}=s3cret") == (
            f"{path}: left in this release; {now} (in a file: config migrate)",
        )
        for name in (environment_name(keys), environment_name(keys) + "_FILE"):
            environ = {**ENVIRONMENT, name: "s3cret"}
            assert told(tmp_path, service(), environ=environ) == (
                f"{name}: left in this release; {now} (in a file: config migrate)",
            )


@each(("knob", "now"), [(knob, now) for knob, now in LEFT.items() if knob.startswith(SERVICE)])
def test_one_of_several_services_is_named(tmp_path: Path, knob: str, now: str) -> None:
    path = ["services", "crm", *keys_of(knob)]
    tree = put({"services": {"crm": service()}}, path, 1)
    assert told(tmp_path, tree) == (
        f"{'.'.join(map(str, path))}: left in this release; {now} (in a file: config migrate)",
    )


def test_no_knob_is_in_the_table_and_the_table_is_short() -> None:
    assert [knob for knob in LEFT if find_knob(keys_of(knob)) is not None] == []
    assert list(LEFT) == sorted(LEFT)
    assert len(LEFT) <= 25
