"""``connect`` a second time: other options change our own entry, and ``--remove`` takes it away. Several services have
an entry each. Nothing else in a client's file changes.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from gateway.cli.client_entries import without_member
from gateway.web.clients import CLIENTS
from tests.each import each
from tests.unit.test_client_entries import URL, connect, parsed

OPTIONS = (
    (URL,),
    (URL, "--set", "catalog.ttl=1m"),
    (URL, "--token-file", "token"),
    ("http://other.example.com/rpc",),
    (URL, "--http"),
    (URL, "--http", "--set", "server.port=9000"),
    (URL, "--http", "--set", "server.public_url=https://gateway.example.com"),
    ("--config", "crm.yaml"),
)
LOGIN = (URL, "--http", "--client-id", "cli")


def entries_of(client: str, file: Path) -> dict[str, object]:
    tree: dict[str, dict[str, object]] = parsed(client, file.read_text())
    return tree.get(CLIENTS[client].section, {})


@each("client", ["claude-code", "cursor", "codex"])
def test_any_two_sets_of_options_change_our_own_entry(client: str, tmp_path: Path) -> None:
    (tmp_path / "crm.yaml").write_text(json.dumps({"backend": {"url": URL}, "auth": {"mode": "off"}}))
    target = ("--client", client, "--entry", "crm")
    for first, second in itertools.permutations(OPTIONS, 2):
        file = Path(connect(tmp_path, *first, *target, "--write").stdout.partition(" has")[0])
        changed = connect(tmp_path, *second, *target, "--write")
        assert (changed.exit_code, changed.stderr) == (0, ""), (first, second)
        assert (
            entries_of(client, file)
            == parsed(client, connect(tmp_path, *second, *target).stdout)[CLIENTS[client].section]
        )
        file.unlink()


@each("client", ["claude-code", "cursor", "codex"])
def test_an_entry_with_a_client_id_has_none_once_it_is_a_command(client: str, tmp_path: Path) -> None:
    target = ("--client", client, "--entry", "crm")
    file = Path(connect(tmp_path, *LOGIN, *target, "--write").stdout.partition(" has")[0])
    for options in (LOGIN, (URL,), LOGIN):
        assert connect(tmp_path, *options, *target, "--write").exit_code == 0
        assert (
            entries_of(client, file)
            == parsed(client, connect(tmp_path, *options, *target).stdout)[CLIENTS[client].section]
        )


def test_what_was_added_to_an_entry_stays_where_the_way_to_the_gateway_changes(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(
        '{"mcpServers": {\n  "crm": {\n    "command": "jsonrpc-mcp-gateway", // ours\n    "args": ["stdio", "http://crm/"],\n'
        '    "disabled": true // for now\n  }\n}}\n'
    )
    ran = connect(tmp_path, URL, "--http", "--client", "cursor", "--file", str(file), "--write")
    assert ran.exit_code == 0
    assert file.read_text() == (
        '{"mcpServers": {\n  "crm": {\n     // ours\n    "disabled": true, // for now\n'
        '    "url": "http://127.0.0.1:8080/mcp"\n  }\n}}\n'
    )


@each("client", ["vscode", "codex"])
@each("before", ["", "other"])
def test_an_entry_that_is_removed_leaves_the_file_as_it_was(client: str, before: str, tmp_path: Path) -> None:
    file = tmp_path / f"{client}{before}"
    section = CLIENTS[client].section
    text = (
        f'# mine\n[{section}.other] # it\ncommand = "x"\n'
        if client == "codex"
        else (f'{{\n  // mine\n  "{section}": {{\n    "other": {{"command": "x"}} // it\n  }}\n}}\n')
    )
    if before:
        file.write_text(text)
    arguments = (URL, "--client", client, "--file", str(file))
    assert connect(tmp_path, *arguments, "--write").exit_code == 0
    removed = connect(tmp_path, *arguments, "--remove")
    assert (removed.exit_code, removed.stderr) == (0, "")
    assert removed.stdout.startswith(f"{file} has no entry crm. ")
    if before:
        assert file.read_text().strip() == text.strip()
    else:
        assert entries_of(client, file) == {}
    again = connect(tmp_path, *arguments, "--remove")
    other = "Another is named with --entry, another file with --file."
    assert (again.exit_code, again.stdout) == (0, f"{file} already has no entry crm. {other}\n")


@each("entry", [{"command": "theirs"}, {"url": "https://crm.example.com/v1"}, {"command": "jsonrpc-mcp-gateway"}])
@each("how", ["--write", "--remove"])
def test_an_entry_of_somebody_else_is_neither_changed_nor_removed(entry: object, how: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(text := json.dumps({"mcpServers": {"crm": entry}}))
    for way in ((), ("--http",)):
        ran = connect(tmp_path, URL, *way, "--client", "cursor", "--file", str(file), how)
        assert ran.exit_code == 2
        assert "it has an entry crm that is not this program's" in ran.stderr
        assert file.read_text() == text


@each(
    ("entry", "more"),
    [
        ({"url": "https://other.example.com/mcp"}, ()),
        ({"url": "http://127.0.0.1:3000/mcp"}, ()),
        ({"url": "https://other.example.com/mcp", "headers": {"Authorization": "Bearer x"}}, ("--entry", "crm")),
        ({"command": "jsonrpc-mcp-gateway", "args": ["stdio"], "url": "https://other.example.com/mcp"}, ()),
    ],
)
@each("how", [("--write",), ("--http", "--write"), ("--remove",)])
def test_a_server_of_somebody_else_at_the_same_path_is_neither_changed_nor_removed(
    entry: object, more: tuple[str, ...], how: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(text := json.dumps({"mcpServers": {"crm": entry}}))
    ran = connect(tmp_path, URL, *more, *how, "--client", "cursor", "--file", str(file))
    assert ran.exit_code == 2
    assert "it has an entry crm that is not this program's" in ran.stderr
    assert file.read_text() == text


def test_our_own_url_is_ours_without_its_name(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"crm": {"url": "http://127.0.0.1:8080/mcp", "headers": {"X-Mine": "1"}}}}')
    ran = connect(tmp_path, URL, "--client", "cursor", "--file", str(file), "--remove")
    assert (ran.exit_code, entries_of("cursor", file)) == (0, {})


def test_several_services_have_an_entry_each(tmp_path: Path) -> None:
    services = {name: {"backend": {"url": f"http://{name}.example.com/rpc"}} for name in ("crm", "erp")}
    (tmp_path / "gateway.yaml").write_text(json.dumps({"services": services, "auth": {"mode": "off"}}))
    arguments = ("--config", "gateway.yaml", "--client", "claude-code")
    printed = json.loads(connect(tmp_path, *arguments).stdout)["mcpServers"]
    assert {name: entry["args"][-2:] for name, entry in printed.items()} == {
        name: ["--service", name] for name in services
    }
    written = connect(tmp_path, *arguments, "--write")
    assert (written.exit_code, written.stdout.count("has the entry")) == (0, 2)
    file = tmp_path / ".mcp.json"
    assert entries_of("claude-code", file) == printed
    assert connect(tmp_path, *arguments, "--service", "erp", "--http", "--write").exit_code == 0
    assert entries_of("claude-code", file) == printed | {
        "erp": {"type": "http", "url": "http://127.0.0.1:8080/erp/mcp"}
    }
    assert connect(tmp_path, *arguments, "--remove").exit_code == 0
    assert entries_of("claude-code", file) == {}
    refused = connect(tmp_path, *arguments, "--entry", "one")
    assert (refused.exit_code, refused.stderr) == (
        2, "--entry one: there are several services. Choose one with --service.\n"
    )  # fmt: skip


@each(
    ("text", "expected"),
    [
        ('{"a": 1, "x": 2, "b": 3}', '{"a": 1,  "b": 3}'),
        ('{"x": 2}', "{}"),
        ('{"a": 1, "x": 2}', '{"a": 1 }'),
        ('{\n  "a": 1, // one\n  "x": {"y": [1, 2]}\n}', '{\n  "a": 1 // one\n}'),
        ('{\r\n  "a": 1,\r\n  "x": 2,\r\n}\r\n', '{\r\n  "a": 1,\r\n}\r\n'),
        ('{"a": 1 /* , */ , /* x */ "x": 2 /* end */}', '{"a": 1 /* , */  /* x */  /* end */}'),
        ('{"x": 2 /* , */ , "b": "x"}', '{ "b": "x"}'),
        ('{"x" /* "y": */ : /* "z" */ 2, "b": 1}', '{ "b": 1}'),
    ],
)
def test_a_member_goes_with_its_comma_and_comments_stay(text: str, expected: str) -> None:
    assert without_member(text, ["x"]) == expected
