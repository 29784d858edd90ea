"""What the command line says about first mistakes names the thing and the remedy, with units."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from gateway.cli import main
from gateway.settings.paths import documents, knobs
from tests.each import each

URL = "http://127.0.0.1:1/x"
UNITS = "a number without a unit is seconds, or bytes"
ISSUERS = "auth.issuers: has the form [{issuer: https://login.example.com}]"
TOKENS = ("--set", "auth.mode=jwt", "--set", "server.public_url=https://gateway.example.com")


def said(*arguments: str) -> str:
    """What ``check`` says on standard error, ending with 2."""
    ran = CliRunner(env={"GATEWAY_TOKEN": None}).invoke(main, ["check", URL, *arguments])
    assert (ran.exit_code, ran.stdout) == (2, "")
    return ran.stderr


@each(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"Bearer abc\n", "begins with Bearer: leave that word out"),
        (b"bearer abc", "begins with Bearer: leave that word out"),
        (b"abc def", "does not hold one access token on one line"),
        (b"abc\ndef\n", "does not hold one access token on one line"),
        (b"\xef\xbb\xbfabc", "does not hold one access token on one line"),
    ],
)
def test_a_token_file_that_holds_no_token_is_told_why(content: bytes, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    assert f"--token-file {file}: {reason}\n" in said("--token-file", str(file))


@each(
    ("knob", "fault"),
    [
        ("backend.timeout=2h", "backend.timeout: must be at most 1h; {UNITS}"),
        ("catalog.ttl=400d", "catalog.ttl: must be at most 1d; {UNITS}"),
        ("catalog.ttl=1ms", "catalog.ttl: must be at least 50ms"),
        ("backend.max_response=1", "backend.max_response: must be at least 1KiB"),
        ("server.max_body=1GiB", "server.max_body: must be at most 64MiB; {UNITS}"),
        ("server.workers=300", "server.workers: must be at most 256"),
        ("catalog.tools={a: {timeout: 2h}}", "catalog.tools.a.timeout: must be at most 1h; {UNITS}"),
        ("catalog.max_stale=1m", "catalog: max_stale must be at least ttl, which is 5m"),
    ],
)
def test_bounds_are_said_with_their_units(knob: str, fault: str) -> None:
    assert f"  {fault.format(UNITS=UNITS)}\n" in said("--set", knob)


@each("value", ["https://login.example.com", "{issuer: https://login.example.com}"])
def test_issuers_in_place_of_a_list_of_them_are_told_the_form(value: str) -> None:
    assert f"  {ISSUERS}\n" in said(*TOKENS, "--set", f"auth.issuers={value}")


def test_an_issuer_that_is_a_text_is_told_the_form() -> None:
    fault = ISSUERS.replace("issuers", "issuers.0")
    assert f"  {fault}\n" in said(*TOKENS, "--set", "auth.issuers=[https://login.example.com]")


def test_the_reference_has_the_bounds_of_every_knob_with_units() -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    assert "A bare number is seconds, or bytes." in page
    members = [(name, field) for _, model in documents() for name, field in model.model_fields.items()]
    for path, field in (*knobs(), *members):
        bounds = [part for part in field.metadata if getattr(part, "le", None) or getattr(part, "ge", None)]
        rows = [line for line in page.splitlines() if line.startswith(f"| `{path}` |")]
        assert not bounds or re.search(r"\((more than|at least|at most) [0-9a-zA-Z, ]+\) \|$", rows[0]), path
    assert "(at least 50ms, at most 1d) |" in page
    assert "(at least 1KiB, at most 64MiB) |" in page


@each(
    ("token", "said"),
    [
        ("abc", "A token is given, but nothing takes it: auth.mode is off, and backend.credentials has its own"),
        ("a\x7fb", "The token has characters that no header may have"),
    ],
)
def test_a_token_of_the_environment_that_cannot_be_used_is_said_at_once(token: str, said: str) -> None:
    knobs = ("--set", "backend.credentials.mode=none") if token == "abc" else ()
    ran = CliRunner(env={"GATEWAY_TOKEN": token}).invoke(main, ["stdio", "http://127.0.0.1:1/x", *knobs])
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert said in ran.stderr
