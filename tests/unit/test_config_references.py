"""References in a configuration: variables and files. What they refer to is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.source import ConfigError, load_settings
from tests.configuring import BASE, OPEN, URL, faults, file, secret_of
from tests.each import each

SECRET = "hunter2-hunter2"


def credentials(value: str) -> str:
    send = f"{{headers: {{Authorization: {value}}}}}"
    return f"backend:\n  url: {URL}\n  credentials: {{mode: static, send: {send}}}\n{OPEN}"


def test_a_variable_and_the_content_of_a_file_are_put_in_place(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    path = file(tmp_path, credentials(f'"${{SCHEME}} ${{file:{secret}}}"'))
    assert secret_of(load_settings(path, (), {"SCHEME": "Bearer"})) == f"Bearer {SECRET}"


def test_only_the_last_newline_of_a_file_goes(tmp_path: Path) -> None:
    (tmp_path / "two").write_text("a: b\n\n")
    path = file(tmp_path, BASE + f'catalog: {{tools: {{m: {{title: "${{file:{tmp_path}/two}}"}}}}}}\n')
    assert load_settings(path, (), {}).catalog.tools["m"].title == "a: b\n"


def test_what_is_put_in_place_is_text_whatever_it_looks_like(tmp_path: Path) -> None:
    path = file(
        tmp_path, BASE + "server: {port: 1}\ncatalog: {tools: {m: {title: '${T}', description: '$${T} $T {T}'}}}\n"
    )
    made = load_settings(path, (), {"T": "${NOT} {again: 1}"})
    assert made.catalog.tools["m"].title == "${NOT} {again: 1}"
    assert made.catalog.tools["m"].description == "${T} $T {T}"


def test_references_that_lead_nowhere_are_all_told_with_their_knobs(tmp_path: Path) -> None:
    text = """
backend:
  url: ${ABSENT}
  credentials: {mode: static, send: {params: [x, "${file:absent}"]}}
  listing: {file: "${file:.}"}
"""
    path = file(tmp_path, text)
    told = faults(path)
    assert "backend.url: the environment has no variable ABSENT; set it, or write $${ for ${" in told
    assert any(fault.startswith("backend.credentials.send.params[1]: ") and "No such file" in fault for fault in told)
    assert any(fault.startswith("backend.listing.file: ") and "directory" in fault for fault in told)


def test_a_referenced_file_that_is_no_text_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    told = faults(file(tmp_path, credentials(f'"${{file:{tmp_path}/binary}}"')))
    assert any("not UTF-8" in fault for fault in told)


AWKWARD = [
    "!{}",
    "!!{}",
    "*{}",
    "&{}",
    "%{}",
    "@{}",
    "`{}",
    "[{}",
    "{{{}",
    "'{}",
    '"{}',
    "{}: a: b",
    "{0}: {0}",
    "|{}",
    ">{}",
    "? {}",
    "- {}",
    "\t{}",
    "{}\x07",
    "{{{0}, {0}}}",
    "Bearer: {}",
    "1{}: 2",
    "{}\n- x",
    "!<{}> x",
    "{}é",
]


@each("form", AWKWARD)
def test_no_fault_ever_shows_a_secret_however_awkwardly_it_is_written(tmp_path: Path, form: str) -> None:
    value = form.format(SECRET)
    name = "GATEWAY__BACKEND__CREDENTIALS__SEND__HEADERS__AUTHORIZATION"
    attempts = [
        lambda: load_settings(None, [f"backend.url={URL}", "server.port=x"], {name: value}),
        lambda: load_settings(
            None, [f"backend.url={URL}", f"backend.credentials.send.headers.Authorization={value}", "server.port=x"], {}
        ),
        lambda: load_settings(
            None, [f"backend.url={URL}", f"backend.credentials.send.params={value}", "server.port=x"], {}
        ),
        lambda: load_settings(file(tmp_path, credentials('"${S}"') + "server: {port: x}\n"), (), {"S": value}),
    ]
    for attempt in attempts:
        with pytest.raises(ConfigError) as caught:
            attempt()
        assert SECRET not in str(caught.value)
        assert SECRET not in repr(caught.value.faults)


def test_a_secret_that_begins_like_a_tag_is_not_shown_from_a_file_either(tmp_path: Path) -> None:
    assert SECRET not in str(faults(file(tmp_path, credentials(f"!{SECRET}"))))


def test_settings_with_secrets_can_be_printed(tmp_path: Path) -> None:
    made = load_settings(file(tmp_path, credentials(SECRET)), (), {})
    assert SECRET not in repr(made) + str(made)
    assert secret_of(made) == SECRET


def test_relative_names_of_files_start_from_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    text = credentials('"${file:secret}"').replace("credentials:", "tls: {ca_file: ca.pem}\n  credentials:")
    made = load_settings(file(tmp_path, text), ["server.secret_file=here"], {})
    assert secret_of(made) == SECRET
    assert made.backend.tls.ca_file == str(tmp_path / "ca.pem")
    assert made.server.secret_file == "here"


def test_so_do_those_of_a_group_and_of_the_audit(tmp_path: Path) -> None:
    text = f"""
services: {{a: {{backend: {{url: {URL}}}, auth: {{mode: "off"}}}}}}
groups: {{all: {{services: [a], auth: {{mode: keys, keys: {{file: keys.yaml, trusted_network: true}}}}}}}}
telemetry: {{audit: {{to: %s}}}}
"""
    made = load_settings(file(tmp_path, text % "calls.log"), (), {})
    assert made.groups_by_mount["/all"].auth.keys.file == str(tmp_path / "keys.yaml")
    assert made.telemetry.audit.to == str(tmp_path / "calls.log")
    assert load_settings(file(tmp_path, text % "stdout"), (), {}).telemetry.audit.to == "stdout"


def test_so_do_those_of_each_issuer(tmp_path: Path) -> None:
    text = f"""
backend: {{url: {URL}}}
auth:
  issuers:
    - {{issuer: https://one.example.com, ca_file: one.pem}}
    - {{issuer: https://two.example.com}}
    - {{issuer: https://three.example.com, ca_file: /etc/three.pem}}
"""
    made = load_settings(file(tmp_path, text), ("backend.credentials.mode=none",), {})
    assert [issuer.ca_file for issuer in made.auth.issuers] == [str(tmp_path / "one.pem"), None, "/etc/three.pem"]
    assert faults(file(tmp_path, BASE.replace("{mode: off}", "{issuers: {ca_file: x}}")))
    assert faults(file(tmp_path, BASE.replace("{mode: off}", "{issuers: [x]}")))
