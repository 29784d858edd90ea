"""``config show`` says what is set and by what, and ``config diff`` what another file would change."""

from pathlib import Path

import pytest

from tests.program import run

FILE = """\
server: {port: 8081}
backend:
  url: http://127.0.0.1:9/jsonrpc
  credentials:
    mode: static
    send: {headers: {X-Api-Key: never-shown}}
auth:
  mode: jwt
  issuers:
    - issuer: https://login.example.com
      audiences: [one, two]
catalog:
  tools:
    books.get: {timeout: 5s}
  include: []
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "gateway.yaml", FILE)


def written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


async def test_each_value_has_its_file_and_line_its_variable_or_its_option(file: Path) -> None:
    options = ("--origin", "--config", str(file), "--set", "limits.discovery=5/minute")
    ran = await run("config", "show", *options, GATEWAY__CATALOG__TTL="30s")
    assert (ran.code, ran.err) == (0, "")
    rows = (row.split("  # ") for row in ran.out.splitlines())
    assert {row.strip(): origin for row, origin in rows} == {
        "server.port = 8081": f"{file}:1",
        "backend.url = http://127.0.0.1:9/jsonrpc": f"{file}:3",
        "backend.credentials.mode = static": f"{file}:5",
        "backend.credentials.send.headers.X-Api-Key = ***": f"{file}:6",
        "auth.mode = jwt": f"{file}:8",
        "auth.issuers.0.issuer = https://login.example.com": f"{file}:10",
        'auth.issuers.0.audiences = ["one","two"]': f"{file}:11",
        "catalog.tools.books.get.timeout = 5s": f"{file}:14",
        "catalog.include = []": f"{file}:15",
        "catalog.ttl = 30s": "GATEWAY__CATALOG__TTL",
        "limits.discovery = 5/minute": "--set limits.discovery",
    }


async def test_a_secret_of_a_file_of_its_own_is_not_shown_either(tmp_path: Path) -> None:
    written(tmp_path / "key", "also-never-shown\n")
    file = written(tmp_path / "gateway.yaml", FILE.replace("never-shown", "'${file:key}'"))
    ran = await run("config", "show", "--config", str(file))
    assert ran.code == 0
    assert "X-Api-Key = ***" in ran.out
    assert "never-shown" not in ran.out + ran.err


async def test_what_another_file_changes_is_named_with_both_values_and_what_needs_a_restart(file: Path) -> None:
    text = FILE.replace("8081", "8082").replace("never-shown", "nor-this").replace("5s", "6s").replace(", two", "")
    other = written(file.with_name("new.yaml"), text)
    ran = await run("config", "diff", str(other), "--config", str(file))
    assert (ran.code, ran.err) == (1, "")
    assert ran.out.splitlines() == [
        "~ server.port: 8081 -> 8082  (needs a restart)",
        "~ backend.credentials.send.headers.X-Api-Key: a secret",
        "~ catalog.tools.books.get.timeout: 5s -> 6s",
        '~ auth.issuers.0.audiences: ["one","two"] -> ["one"]',
    ]


async def test_services_that_come_and_go_are_named_and_others_are_told_by_their_knobs(tmp_path: Path) -> None:
    old, new = (
        written(tmp_path / f"{name}.yaml", f"auth: {{mode: 'off'}}\nservices:\n{rows}")
        for name, rows in {
            "old": "  books: {backend: {url: 'http://127.0.0.1:1/'}}\n  gone: {backend: {url: 'http://127.0.0.1:2/'}}\n",
            "new": "  books: {backend: {url: 'http://127.0.0.1:3/'}}\n  come: {backend: {url: 'http://127.0.0.1:2/'}}\n",
        }.items()
    )
    ran = await run("config", "diff", str(new), "--config", str(old))
    assert (ran.code, ran.err) == (1, "")
    assert sorted(ran.out.splitlines()) == [
        "+ service come",
        "- service gone",
        "~ services.books.backend.url: http://127.0.0.1:1/ -> http://127.0.0.1:3/",
    ]


async def test_a_file_that_changes_nothing_ends_with_0(file: Path) -> None:
    same = written(file.with_name("new.yaml"), f"# a comment\n{FILE}")
    ran = await run("config", "diff", str(same), "--config", str(file))
    assert (ran.code, ran.out) == (0, f"{same} changes nothing.\n")


async def test_a_file_that_cannot_be_used_is_told_with_its_faults(file: Path) -> None:
    faulty = written(file.with_name("new.yaml"), FILE.replace("port: 8081", "port: many"))
    ran = await run("config", "diff", str(faulty), "--config", str(file))
    assert ran.code == 2
    assert ran.err.splitlines() == [f"{faulty} cannot be used:", "  server.port: must be a whole number"]


async def test_an_old_file_is_printed_new_or_written(tmp_path: Path) -> None:
    old = "backend:\n  url: http://127.0.0.1:9/jsonrpc # ours\n  transport: lean\n"
    file = written(tmp_path / "gateway.yaml", old)
    ran = await run("config", "migrate", str(file))
    assert (ran.code, ran.out, ran.err) == (0, old.replace("  transport: lean\n", ""), "backend.transport: removed\n")
    assert file.read_text() == old
    ran = await run("config", "migrate", "--write", str(file))
    assert (ran.code, ran.out, file.read_text()) == (0, "", old.replace("  transport: lean\n", ""))
    ran = await run("config", "migrate", str(file))
    assert ran.err == f"{file} has no knob that left.\n"
    ran = await run("config", "migrate", str(written(file, "a: [")))
    assert (ran.code, ran.out) == (2, "")
    assert f"{file}:1:5" in ran.err
