"""Knobs from the environment and the command line: text as it is, all else as YAML, references in every layer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.config.layers import environment_name, read_yaml_with_references
from gateway.config.source import ConfigError, ConfigSource, load_settings
from gateway.settings import Settings
from tests.configuring import ENVIRONMENT, URL
from tests.each import each

SECRET = "backend.credentials.password"
TITLE = "catalog.tools.m.title"


def by_environment(knob: str, value: str, **environ: str) -> Settings:
    return load_settings(None, (), {**ENVIRONMENT, environment_name(knob.split(".")): value, **environ})


def by_override(knob: str, value: str, **environ: str) -> Settings:
    return load_settings(None, [f"{knob}={value}"], {**ENVIRONMENT, **environ})


LAYERS = each("given", [by_environment, by_override])
Given = Callable[..., Settings]


def faults(given: Callable[[], Settings]) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        given()
    return caught.value.faults


def with_mode(**environ: str) -> dict[str, str]:
    return {"GATEWAY__BACKEND__CREDENTIALS__MODE": "basic", "GATEWAY__BACKEND__CREDENTIALS__USER": "gateway", **environ}


def secret_of(settings: Settings) -> str:
    password = settings.backend.credentials.password
    assert password is not None
    return password.get_secret_value()


# --- text -----------------------------------------------------------------------------------------------------

AWKWARD = [
    "hunter2 #tail", "12345", "0x1f", "1e5", "true", "null", "~", "off", "2026-11-21", "12:30", "a: b", "- a", "[a",
    "{a}", "&a", "*a", "!a", "%a", "@a", "`a`", "|", ">", '"quoted"', "'quoted'", "$a", "{{a}}", "a\\b", "1_000",
]  # fmt: skip


@LAYERS
@each("secret", AWKWARD)
def test_a_secret_is_taken_as_it_is(given: Given, secret: str) -> None:
    assert secret_of(given(SECRET, secret, **with_mode())) == secret


@LAYERS
@each("text", [text for text in AWKWARD if "quoted" not in text])
def test_so_is_text_that_is_no_secret(given: Given, text: str) -> None:
    assert given(TITLE, text).catalog.tools["m"].title == text


@LAYERS
@each("text", ['"::"', "'::'", ' "a" ', '"a \\"b\\""', '"${A}"'])
def test_text_in_quotes_is_a_fault_that_says_so(given: Given, text: str) -> None:
    (fault,) = faults(lambda: given("server.host", text, A="a"))
    assert "quotes" in fault
    assert fault.startswith(("GATEWAY__SERVER__HOST: ", "--set server.host: "))


@LAYERS
def test_quotes_within_a_text_are_text(given: Given) -> None:
    for text in ('"War" and "Peace"', 'the "best"', "it's", '"', "''s"):
        assert given(TITLE, text).catalog.tools["m"].title == text


@LAYERS
def test_an_empty_text_is_null_where_there_may_be_none(given: Given) -> None:
    assert given("server.public_url", "").server.public_url is None
    assert given("backend.proxy", "${EMPTY}", EMPTY="").backend.proxy is None
    assert given("backend.credentials.password", "").backend.credentials.password is None
    assert given("backend.listing.custom.name", "").backend.listing.custom.name is None


def test_an_empty_text_is_a_fault_where_there_has_to_be_one() -> None:
    (fault,) = faults(lambda: by_environment("backend.url", ""))
    assert fault.startswith("backend.url: ")


# --- everything else ------------------------------------------------------------------------------------------


@LAYERS
@each(
    ("knob", "text", "value"),
    [
        ("server.port", "0x50", 80),
        ("backend.params.send_defaults", "true", True),
        ("backend.timeout", '"1m"', 60),
        ("backend.timeout", "90", 90),
        ("server.max_body", "64KiB", 65536),
        ("limits.discovery", "5/hour", "5/hour"),
        ("server.allowed_hosts", "[a, 'b']", ("a", "b")),
        ("server.allowed_hosts", "\n- a\n- b\n", ("a", "b")),
        ("auth.scopes.implies", "{admin: [read, write]}", {"admin": ("read", "write")}),
        ("catalog.tools.m.confirm", "null", None),
        ("catalog.tools.m.output_schema", "false", False),
        ("catalog.tools.m.output_schema", '{"type": "object"}', {"type": "object"}),
    ],
)
def test_what_is_no_text_is_yaml(given: Given, knob: str, text: str, value: Any) -> None:
    made: Any = given(knob, text)
    for key in knob.split("."):
        made = made[key] if isinstance(made, dict) else getattr(made, key)
    assert made == value


@LAYERS
def test_any_json_is_yaml(given: Given) -> None:
    for text, value in (("12345", 12345), ('"12345"', "12345"), ("[1, {a: b}]", [1, {"a": "b"}]), ("word", "word")):
        default = given("catalog.tools.m.arguments.x.default", text).catalog.tools["m"].arguments["x"].default
        assert default is not None
        assert default.get_secret_value() == value


@LAYERS
def test_what_cannot_be_read_as_yaml_is_a_fault_without_its_text(given: Given) -> None:
    (fault,) = faults(lambda: given("server.allowed_hosts", "[hunter2"))
    assert "cannot be read as YAML" in fault
    assert "hunter2" not in fault


# --- references -----------------------------------------------------------------------------------------------


@LAYERS
def test_references_are_resolved_in_every_layer(given: Given, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("to#ken: 1\n")
    made = given(SECRET, f"${{SCHEME}} ${{file:{tmp_path}/token}} $${{SCHEME}}", **with_mode(SCHEME="Bearer"))
    assert secret_of(made) == "Bearer to#ken: 1 ${SCHEME}"


@LAYERS
def test_what_a_reference_stands_for_is_not_looked_through_again(given: Given) -> None:
    assert given(TITLE, "${A}", A="${B} $${C}").catalog.tools["m"].title == "${B} $${C}"
    assert given("catalog.include", "[${A}]", A="${B}").catalog.include == ("${B}",)


@LAYERS
@each("text", ["[${A}, b]", '["${A}", b]', "['${A}', 'b']", "\n- ${A}\n- b\n"])
def test_within_a_list_or_map_a_reference_stands_for_text_whatever_it_looks_like(given: Given, text: str) -> None:
    for value in ("a", 'a", "x', "a]", "a: b #c", "12345", ""):
        assert given("catalog.include", text, A=value).catalog.include == (value, "b")


@LAYERS
def test_what_cannot_be_text_is_read_as_yaml_once_its_references_are_resolved(given: Given) -> None:
    assert given("server.port", "${PORT}", PORT="80").server.port == 80
    assert given("backend.timeout", "${N}${UNIT}", N="2", UNIT="m").backend.timeout == 120
    assert given("server.allowed_hosts", "${HOSTS}", HOSTS="[a, b]").server.allowed_hosts == ("a", "b")
    tools = '{m: {timeout: "${T}", title: "${T}", confirm: "${C}"}}'
    tool = given("catalog.tools", tools, T="5s", C="true").catalog.tools["m"]
    assert (tool.timeout, tool.title, tool.confirm) == (5, "5s", True)


def test_so_it_is_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(f"""
backend: {{url: {URL}, timeout: ${{TIME}}, proxy: ${{EMPTY}}}}
auth: {{mode: ${{MODE}}}}
catalog: {{include: ${{SOME}}, exclude: [${{OTHER}}, $${{x}}]}}
""")
    environ = {"TIME": "1m", "EMPTY": "", "MODE": "off", "SOME": "[a, b]", "OTHER": "http://a: {b}"}
    made = load_settings(file, (), environ)
    assert (made.backend.timeout, made.backend.proxy, made.auth.mode) == (60, None, "off")
    assert made.catalog.include == ("a", "b")
    assert made.catalog.exclude == ("http://a: {b}", "${x}")


def test_a_fault_behind_a_reference_has_its_place(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("a: {b: ${B}, b: 2}\n")
    assert faults(lambda: load_settings(file, (), {})) == (f'{file}:1:14: key "b" occurs twice: keep one',)


@each("text", ["'${', b: {c: d}", '"${", b: {c: "}"}', "$${a}, b: {}", "'$${ ${', b: '}'"])
def test_braces_that_are_no_reference_are_what_yaml_makes_of_them(text: str) -> None:
    assert read_yaml_with_references(f"{{a: {text}}}", "t").keys() == {"a", "b"}


@LAYERS
def test_a_reference_that_leads_nowhere_is_one_fault(given: Given, tmp_path: Path) -> None:
    for knob, text, reason in (
        ("backend.url", "${ABSENT}", "the environment has no variable ABSENT; set it, or write $${ for ${"),
        (
            "server.allowed_hosts",
            "[a, ${ABSENT}]",
            "the environment has no variable ABSENT; set it, or write $${ for ${",
        ),
        ("backend.url", f"${{file:{tmp_path}/absent}}", f"{tmp_path}/absent: No such file or directory"),
        ("backend.url", f"${{file:{tmp_path}}}", f"{tmp_path}: Is a directory"),
    ):
        (fault,) = faults(lambda knob=knob, text=text: given(knob, text))  # type: ignore[misc]
        assert knob.rpartition(".")[2] in fault.lower()
        assert fault.endswith(f": {reason}")


@LAYERS
def test_what_references_stand_for_is_not_shown_where_it_is_no_yaml(given: Given) -> None:
    (fault,) = faults(lambda: given("server.allowed_hosts", "${HOSTS}", HOSTS="[hunter2"))
    assert "cannot be read as YAML" in fault
    assert "hunter2" not in fault


# --- files ----------------------------------------------------------------------------------------------------


def test_a_text_may_be_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('"${NOT} #1"\n\n')
    (tmp_path / "url").write_text(URL)
    environ = {
        "GATEWAY__BACKEND__CREDENTIALS__MODE": "basic",
        "GATEWAY__BACKEND__CREDENTIALS__USER_FILE": f"{tmp_path}/user",
        "GATEWAY__BACKEND__URL_FILE": f"{tmp_path}/url",
        "GATEWAY__AUTH__MODE": "off",
        "GATEWAY__CATALOG__TOOLS__M__DESCRIPTION_FILE": "${FOLDER}/secret",
        "FOLDER": str(tmp_path),
    }
    (tmp_path / "user").write_text("gateway\n")
    made = load_settings(None, [f"{SECRET}=x"], environ)
    assert made.backend.url == URL
    assert made.backend.credentials.user == "gateway"
    assert made.catalog.tools["m"].description == '"${NOT} #1"\n'


def test_a_secret_may_too(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2 #tail\n")
    environ = with_mode(GATEWAY__BACKEND__CREDENTIALS__PASSWORD_FILE=f"{tmp_path}/secret", **ENVIRONMENT)
    assert secret_of(load_settings(None, (), environ)) == "hunter2 #tail"


def test_a_knobs_own_name_wins_over_a_file_of_another() -> None:
    assert by_environment("server.secret_file", "/run/secrets/signing").server.secret_file == "/run/secrets/signing"
    assert by_environment("backend.tls.ca_file", "ca.pem").backend.tls.ca_file == "ca.pem"


def test_a_knob_is_not_given_twice(tmp_path: Path) -> None:
    (tmp_path / "url").write_text(URL)
    (fault,) = faults(lambda: by_environment("backend.url", URL, GATEWAY__BACKEND__URL_FILE=f"{tmp_path}/url"))
    assert fault == "GATEWAY__BACKEND__URL_FILE: GATEWAY__BACKEND__URL is set too; keep one of them"


def test_a_file_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "large").write_text("x" * (1024**2 + 1))
    for name, reason in (("absent", "No such file"), ("binary", "not UTF-8"), ("large", "larger than 1 MiB")):
        (fault,) = faults(lambda name=name: load_settings(None, (), {  # type: ignore[misc]
            "GATEWAY__AUTH__MODE": "off", "GATEWAY__BACKEND__URL_FILE": f"{tmp_path}/{name}"}))  # fmt: skip
        assert fault.startswith("GATEWAY__BACKEND__URL_FILE: ")
        assert reason in fault


def test_a_name_of_a_file_that_is_empty_is_called_so() -> None:
    assert faults(lambda: by_environment("mcp.heartbeat", "1s", GATEWAY__CATALOG__PIN_FILE="")) == (
        "GATEWAY__CATALOG__PIN_FILE: is empty; it must name a file",
    )


def test_what_is_no_text_is_in_no_file_of_its_own() -> None:
    (fault,) = faults(lambda: by_environment("backend.url", URL, GATEWAY__SERVER__ALLOWED_HOSTS_FILE="/x"))
    assert fault.startswith("GATEWAY__SERVER__ALLOWED_HOSTS_FILE: ")
    assert "${file:...} in GATEWAY__SERVER__ALLOWED_HOSTS" in fault


def test_all_files_are_told_that_something_was_read_from(tmp_path: Path) -> None:
    file, key, user, value = (tmp_path / name for name in ("gateway.yaml", "key", "user", "value"))
    file.write_text(f'backend: {{url: {URL}, listing: {{language: "${{file:key}}"}}}}\n')
    for path in (key, user, value):
        path.write_text("x")
    environ = {
        "GATEWAY__AUTH__MODE": "off",
        "GATEWAY__BACKEND__CREDENTIALS__MODE": "basic",
        "GATEWAY__BACKEND__CREDENTIALS__USER_FILE": str(user),
        "GATEWAY__BACKEND__CREDENTIALS__PASSWORD": f"${{file:{value}}}",
    }
    source = ConfigSource(file, environ=environ)
    source.load_settings()
    assert source.files == {file, key, user, value}
    value.unlink()
    file.write_text("not a mapping")
    assert len(faults(source.load_settings)) == 2
    assert source.files == {file, user, value}
