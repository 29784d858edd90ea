"""From YAML, environment and command line to settings: later layers win, and all faults are told at once.

References in them are in test_config_references.py.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from gateway.config.source import ConfigError, load_settings
from gateway.config.strict_yaml import read_yaml
from gateway.settings.paths import knobs
from tests.configuring import BASE, ENVIRONMENT, OPEN, URL, faults, file
from tests.each import each

# --- layers ---------------------------------------------------------------------------------------------------


def test_the_environment_beats_the_file_and_the_command_line_beats_both(tmp_path: Path) -> None:
    path = file(tmp_path, BASE + "server: {port: 1, admin_port: 2, host: '::1'}\n")
    made = load_settings(path, ["server.port=3"], {"GATEWAY__SERVER__PORT": "4", "GATEWAY__SERVER__ADMIN_PORT": "5"})
    assert (made.server.port, made.server.admin_port, made.server.host) == (3, 5, "::1")


def test_of_two_settings_of_one_knob_the_later_wins() -> None:
    assert load_settings(None, ["server.port=1", "server.port=2"], ENVIRONMENT).server.port == 2


def test_a_layer_adds_to_a_section_and_does_not_replace_it(tmp_path: Path) -> None:
    path = file(tmp_path, f"backend:\n  url: {URL}\n  timeout: 9s\n{OPEN}")
    made = load_settings(path, ["backend.listing.timeout=3s"], {"GATEWAY__BACKEND__PARAMS__SEND_DEFAULTS": "true"})
    assert (made.backend.timeout, made.backend.listing.timeout, made.backend.params.send_defaults) == (9, 3, True)


def test_a_layer_adds_to_a_section_of_which_there_is_the_name_alone(tmp_path: Path) -> None:
    path = file(tmp_path, f"backend: {{url: {URL}}}\nauth:\n")
    assert load_settings(path, (), {"GATEWAY__AUTH__MODE": "off"}).auth.mode == "off"


def test_without_a_file_the_environment_is_enough() -> None:
    assert load_settings(None, (), ENVIRONMENT).backend.url == URL


# --- faults ---------------------------------------------------------------------------------------------------


def test_all_faults_are_told_at_once_each_with_the_path_of_its_knob(tmp_path: Path) -> None:
    path = file(
        tmp_path,
        """
backend: {url: "ftp://x", timeout: soon, listing: {dialect: klingon}}
server: {port: many, hots: 1}
catalog: {tools: {a: {timeout: -1, arguments: {x: {schema: 5}}}}}
sever: {}
""",
    )
    told = faults(path, "limits.discovery=lots", "nonsense")
    starts = {fault.partition(": ")[0] for fault in told}
    assert starts == {
        "backend.url",
        "backend.timeout",
        "backend.listing.dialect",
        "server.port",
        "server.hots",
        "sever",
        "catalog.tools.a.timeout",
        "catalog.tools.a.arguments.x.schema",
        "limits.discovery",
        "--set nonsense",
    }


@each(
    ("text", "place", "known"),
    [
        ("telemetry: {log: {lvl: info}}", "telemetry.log.lvl", "level"),
        (
            "mcp: {server: {about: {icons: [{src: 'https://x/i.png', size: any}]}}}",
            "mcp.server.about.icons.0.size",
            "src, mime_type",
        ),
        ("catalog: {tools: {a.b: {scope: x}}}", "catalog.tools.a.b.scope", "name, title, description, annotations"),
        ("catalog: {tools: {a: {arguments: {x: {schma: true}}}}}", "catalog.tools.a.arguments.x.schma", "schema, desc"),
    ],
)
def test_an_unknown_key_is_told_with_the_known_ones(tmp_path: Path, text: str, place: str, known: str) -> None:
    (fault,) = faults(file(tmp_path, BASE + text))
    assert fault.startswith(f"{place}: unknown key; known here: {known}")


@each(
    ("text", "said"),
    [
        ("server: {allowed_hosts: gw.example.com}", "server.allowed_hosts: must be a list, such as [one, two]"),
        ("mcp: {server: {about: {title: 1.0}}}", "mcp.server.about.title: must be a text; in quotes"),
        ("mcp: {server: bookshop}", "mcp.server: must be a mapping, such as {name: value}"),
        ("catalog: {tools: [a]}", "catalog.tools: must be a mapping, such as {name: value}"),
    ],
)
def test_what_is_of_another_kind_is_told_in_words_of_yaml(tmp_path: Path, text: str, said: str) -> None:
    (fault,) = faults(file(tmp_path, BASE + text))
    assert fault.startswith(said)


@each(
    ("knob", "meant"),
    [
        ("backend.tiemout=1s", "timeout"),
        ("backend.listing.dialect=opnrpc", "openrpc"),
        ("auth.issuers=[{issuer: https://x, preset: keyclock}]", "keycloak"),
        ("catalog.aud=1", None),
        ("catalog.proxy=x", "backend.proxy"),
    ],
)
def test_what_is_misspelled_is_told_with_what_is_probably_meant(tmp_path: Path, knob: str, meant: str | None) -> None:
    (fault,) = faults(file(tmp_path, BASE), knob)
    assert fault.rpartition("; ")[2] == f"did you mean {meant}?" if meant else "did you mean" not in fault


WRONG = ([1], {"a": 1}, "x y", -1, 1e99, True, None, [{"a": 1}], "", 1.5, [["x"]], [None])
PYTHON = re.compile(r"\bInput\b|pydantic|\bstr\b|\bdict|None|True|False|String|'[\w.]+'|valid (?:int|str|bool)")


@each("knob", [name for name, _ in knobs() if "*" not in name])
def test_no_fault_of_a_knob_has_words_of_python(tmp_path: Path, knob: str) -> None:
    *sections, last = knob.split(".")
    for wrong in WRONG:
        tree: dict[str, Any] = {"backend": {"url": "http://127.0.0.1/"}, "auth": {"mode": "off"}}
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[last] = wrong
        try:
            load_settings(file(tmp_path, json.dumps(tree)), environ={})
        except ConfigError as error:
            for fault in error.faults:
                assert not PYTHON.search(fault.partition(": ")[2]), (wrong, fault)


@each("knob", ["server.host", "server.admin_host"])
def test_no_address_to_bind_to_is_a_fault_and_not_every_address(tmp_path: Path, knob: str) -> None:
    said = faults(file(tmp_path, BASE), f"{knob}=")
    assert said == (f"{knob}: must have at least 1 character",)


def test_the_required_knob_is_asked_for() -> None:
    assert faults(None) == ("backend.url: is required",)
    assert faults(None, "backend.timeout=1s") == ("backend.url: is required",)


@each(
    ("text", "fault"),
    [
        ("server: {port: 1}\nserver: {port: 2}\n", 'gateway.yaml:2:1: key "server" occurs twice'),
        ("server:\n  port: 1\n  port: 1\n", 'gateway.yaml:3:3: key "port" occurs twice'),
        ("a: &x {b: 1}\nc: *x\n", "gateway.yaml:2:4: aliases (*name) are not supported"),
        ("a: &x {b: 1}\nc: {<<: *x}\n", "aliases (*name) are not supported"),
        ("1: x\n", "gateway.yaml:1:1: key 1 is not a text"),
        ("true: x\n", "key true is not a text"),
        ("null: x\n", "key null is not a text"),
        ("? [a]\n: b\n", "key of several values is not a text"),
        ("a: !!python/object/apply:os.system [id]\n", "gateway.yaml:1:4: tags (!name) are not supported"),
        ("a: !!bool x\n", "gateway.yaml: a value is not what its tag (!!name) says"),
        ("a: !!timestamp x\n", "gateway.yaml: a value is not what its tag (!!name) says"),
        ("a: [1\n", "gateway.yaml:2:1: "),
        ("a: b: c\n", "gateway.yaml:1:5: mapping values are not allowed here"),
        ("--- {}\n--- {}\n", "another document"),
        ("[1, 2]\n", "must be a mapping with sections"),
        ("just words\n", "must be a mapping with sections"),
        ("a: \x07\n", "special characters are not allowed"),
        ("[" * 5000, "nested too deeply"),
        ("#" * (1024**2 + 1), "larger than 1 MiB"),
        (b"\xff\xfe\x00", "not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_place(tmp_path: Path, text: str | bytes, fault: str) -> None:
    (told,) = faults(file(tmp_path, text))
    assert fault in told


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    (told,) = faults(tmp_path / "absent.yaml")
    assert told.endswith("absent.yaml: No such file or directory")


def test_an_empty_file_is_no_fault_of_its_own(tmp_path: Path) -> None:
    assert faults(file(tmp_path, "# nothing\n")) == ("backend.url: is required",)


@each(
    ("override", "fault"),
    [("server.port.x=1", "backend"), ("server=5", "server: "), ("=5", "unknown key"), ("a..b=1", "a: unknown key")],
)
def test_a_path_that_leads_nowhere_is_a_fault_and_no_crash(override: str, fault: str) -> None:
    assert any(fault in told for told in faults(None, override))


def test_a_value_below_a_knob_that_is_no_section_is_refused() -> None:
    told = faults(None, f"backend.url={URL}", "auth.mode=off", "server.port=1", "server.port.x=2")
    assert told == ("--set server.port.x: port is not a section",)


def test_words_of_yaml_are_words_and_only_true_and_false_are_not() -> None:
    assert read_yaml("[off, on, yes, no, y, n, 2026-11-21, 12:30]", "t")[:7] == [
        "off",
        "on",
        "yes",
        "no",
        "y",
        "n",
        "2026-11-21",
    ]
    assert read_yaml("[true, True, FALSE, null, ~, 1, 1.5, 0x1f]", "t") == [True, True, False, None, None, 1, 1.5, 31]


def test_a_mode_of_off_needs_no_quotes(tmp_path: Path) -> None:
    assert load_settings(file(tmp_path, BASE), (), {}).auth.mode == "off"
