"""``connect`` prints and writes the entry for each client, and touches nothing else in a client's file."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gateway.cli import main
from gateway.cli.client_entries import change_entry
from gateway.web.clients import CLIENTS, NotAdded
from tests.each import each

URL = "http://crm.example.com/jsonrpc"
# What each client's documentation requires and allows in an entry: (its section, for a command, for a URL).
DOCUMENTED: dict[str, tuple[str, set[str], set[str] | None]] = {
    "claude-desktop": ("mcpServers", {"command", "args"}, None),
    "claude-code": ("mcpServers", {"type=stdio", "command", "args"}, {"type=http", "url"}),
    "vscode": ("servers", {"type=stdio", "command", "args"}, {"type=http", "url"}),
    "cursor": ("mcpServers", {"command", "args"}, {"url"}),
    "codex": ("mcp_servers", {"command", "args"}, {"url"}),
    "gemini": ("mcpServers", {"command", "args"}, {"type=http", "url"}),
    "json": ("mcpServers", {"type=stdio", "command", "args"}, {"type=http", "url"}),
}
# The members for a client id, as each client documents them.
LOGINS: dict[str, dict[str, Any]] = {
    "claude-code": {"oauth": {"clientId": "agents", "callbackPort": 8088}},
    "vscode": {"oauth": {"clientId": "agents"}},
    "cursor": {"auth": {"CLIENT_ID": "agents"}},
    "codex": {"oauth": {"client_id": "agents"}},
    "gemini": {"oauth": {"enabled": True, "clientId": "agents", "redirectUri": "http://localhost:7777/oauth/callback"}},
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def connect(home: Path, *arguments: str) -> Result:
    """Run ``connect`` in the folder ``home``, which is the home, too. There is no service to check."""
    strange = {name: None for name in os.environ if name.startswith("GATEWAY_")}
    environ = {**strange, "HOME": str(home), "XDG_CONFIG_HOME": None, "CODEX_HOME": None}
    with contextlib.chdir(home):
        return CliRunner(env=environ).invoke(main, ["connect", "--unchecked", *arguments])


def parsed(client: str, text: str) -> Any:
    return tomllib.loads(text) if CLIENTS[client].is_toml else json.loads(text)


@each("client", list(DOCUMENTED))
def test_the_entry_has_the_members_that_the_client_documents(client: str, home: Path) -> None:
    section, of_command, of_url = DOCUMENTED[client]
    for arguments, wanted in (((), of_command), (("--http",), of_url)):
        ran = connect(home, URL, "--client", client, *arguments)
        if wanted is None:
            assert ran.exit_code == 2
            assert "takes commands only" in ran.stderr
            continue
        entry = parsed(client, ran.stdout)[section]["crm"]
        assert {f"type={value}" if name == "type" else name for name, value in entry.items()} == wanted
        if "command" in entry:
            assert Path(entry["command"]).is_absolute()
            assert entry["args"][-2:] == ["stdio", URL]
        else:
            assert entry["url"] == "http://127.0.0.1:8080/mcp"
    assert [*home.iterdir()] == []


@each("client", list(LOGINS))
def test_a_client_id_stands_where_the_client_reads_it(client: str, home: Path) -> None:
    section, *_ = DOCUMENTED[client]
    plain = parsed(client, connect(home, URL, "--client", client, "--http").stdout)[section]["crm"]
    options = (URL, "--client", client, "--http", "--client-id", "agents", "--file", f"{client}.json", "--write")
    ran = connect(home, *options)
    assert ran.exit_code == 0, ran.stderr
    file = home / f"{client}.json"
    assert parsed(client, file.read_text())[section]["crm"] == plain | LOGINS[client]
    assert "already has the entry crm" in connect(home, *options).stdout
    # One for another client id takes its place.
    ran = connect(home, *(word.replace("agents", "others") for word in options))
    assert ran.exit_code == 0, ran.stderr
    assert '"others"' in file.read_text()
    assert "agents" not in file.read_text()


def test_a_client_id_has_no_place_in_an_entry_with_a_command_or_of_an_unknown_form(home: Path) -> None:
    for arguments in (("--client", "cursor"), ("--http",)):
        ran = connect(home, URL, "--client-id", "agents", *arguments)
        assert (ran.exit_code, ran.stdout) == (2, "")
        assert "--client-id needs --http, and a --client whose file has a place for it." in ran.stderr
    ran = connect(home, URL, "--client-id", "agents", "--client", "claude-desktop", "--http")
    assert "under Connectors (a client id under Advanced settings)" in ran.stderr


@each("client", [name for name in DOCUMENTED if name != "json"])
def test_writing_makes_the_clients_file_and_a_second_time_changes_nothing(client: str, home: Path) -> None:
    first = connect(home, URL, "--client", client, "--write")
    assert (first.exit_code, first.stderr) == (0, "")
    file = Path(first.stdout.partition(" has the entry crm. ")[0])
    assert file.is_relative_to(home)
    written = file.stat().st_ino
    printed = connect(home, URL, "--client", client).stdout
    assert parsed(client, file.read_text()) == parsed(client, printed)
    again = connect(home, URL, "--client", client, "--write")
    assert " already has the entry crm. " in again.stdout
    assert file.stat().st_ino == written  # a file that is written is another one


def test_other_entries_comments_the_mode_and_links_stay(home: Path) -> None:
    real = home / "dotfiles.json"
    real.write_text('{\n  // mine\n  "servers": {\n    "other": {"command": "x"}, // and this\n  },\n}\n')
    real.chmod(0o600)
    link = home / ".vscode" / "mcp.json"
    link.parent.mkdir()
    link.symlink_to(real)
    assert connect(home, URL, "--client", "vscode", "--http", "--write").exit_code == 0
    assert real.read_text() == (
        '{\n  // mine\n  "servers": {\n    "other": {"command": "x"}, // and this\n    "crm": {\n'
        '      "type": "http",\n      "url": "http://127.0.0.1:8080/mcp"\n    }\n  },\n}\n'
    )
    assert link.is_symlink()
    if os.name == "posix":
        assert real.stat().st_mode & 0o777 == 0o600


def test_codex_keeps_its_comments_and_tables(home: Path) -> None:
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    before = '# mine\nmodel = "m" # this one\n\n[mcp_servers.other]\ncommand = "x"\n\n[tui]\n# last\ntheme = "t"\n'
    file.write_text(before)
    assert connect(home, URL, "--client", "codex", "--http", "--write").exit_code == 0
    text = file.read_text()
    assert tomllib.loads(text) == tomllib.loads(before) | {
        "mcp_servers": {"other": {"command": "x"}, "crm": {"url": "http://127.0.0.1:8080/mcp"}}
    }
    assert [line for line in text.splitlines() if line in before.splitlines()] == before.splitlines()


@each("client", ["cursor", "codex"])
def test_an_entry_of_ours_is_changed_and_what_was_added_to_it_stays(client: str, home: Path) -> None:
    file = Path(connect(home, URL, "--client", client, "--write").stdout.partition(" has")[0])
    tree = parsed(client, file.read_text())
    section = CLIENTS[client].section
    if client == "codex":
        file.write_text(file.read_text() + "startup_timeout_sec = 20 # slow\n")
    else:
        tree[section]["crm"]["env"] = {"A": "b"}
        file.write_text(json.dumps(tree))
    added = parsed(client, file.read_text())[section]["crm"].keys() - {"command", "args"}
    assert len(added) == 1
    assert connect(home, "http://other/x", "--client", client, "--write", "--entry", "crm").exit_code == 0
    entry = parsed(client, file.read_text())[section]["crm"]
    assert entry["args"][-1] == "http://other/x"
    assert added <= entry.keys()


@each(
    ("content", "reason"),
    [
        ('{"mcpServers": {', "cannot be parsed: Expecting property name enclosed in double quotes: line 1 column 17"),
        ("[" * 100_000, "cannot be parsed: it nests too deeply"),
        ("\xff", "cannot be parsed: Expecting value: line 1 column 1"),
        ('{"mcpServers": []}', "cannot be parsed: mcpServers is not a mapping"),
        ('{"mcpServers": {"crm": {"command": "mine"}}}', "it has an entry crm that is not this program's"),
    ],
)
def test_a_file_that_cannot_be_changed_is_left_alone_and_the_entry_is_printed(
    content: str, reason: str, home: Path
) -> None:
    file = home / "mcp.json"
    file.write_text(content)
    ran = connect(home, URL, "--client", "cursor", "--file", str(file), "--write")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "Nothing is written: " in ran.stderr
    assert reason in ran.stderr
    assert '"stdio",\n        "http://crm.example.com/jsonrpc"' in ran.stderr
    assert file.read_text() == content
    assert [*home.iterdir()] == [file]


def test_what_is_not_a_file_of_its_own_to_change_is_left_alone(home: Path) -> None:
    (home / "latin").write_bytes(b'{"a": "\xe9"}')
    (home / "deep").write_text("a = " + "[" * 5000 + "]" * 5000)
    (home / "loop").symlink_to(home / "loop")
    (home / "locked").write_text("{}")
    (home / "locked").chmod(0o444)
    os.mkfifo(home / "pipe")
    reasons = {"latin": "is not UTF-8", "deep": "nests too deeply", "loop": "symbolic links", "locked": "is read-only",
               "pipe": "is not a file"}  # fmt: skip
    for name, reason in reasons.items():
        client = "codex" if name == "deep" else "cursor"
        ran = connect(home, URL, "--client", client, "--file", str(home / name), "--write")
        assert (ran.exit_code, ran.stdout) == (2, "")
        assert "Nothing is written: " in ran.stderr
        assert reason in ran.stderr
    assert {one.name for one in home.iterdir()} == {*reasons}


def test_a_link_to_a_file_that_is_not_there_yet_stays_a_link(home: Path) -> None:
    (home / "mcp.json").symlink_to(home / "dotfiles" / "mcp.json")
    assert connect(home, URL, "--client", "cursor", "--file", "mcp.json", "--write").exit_code == 0
    assert (home / "mcp.json").is_symlink()
    assert "crm" in json.loads((home / "dotfiles" / "mcp.json").read_text())["mcpServers"]


@each("before", ['mcp_servers = {o = {command = "x"}}\n', "mcp_servers = {}\n", 'mcp_servers.o.command = "x"\n'])
def test_each_form_of_codexs_section_takes_an_entry(before: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.toml"
        file.write_text(before)
        assert connect(Path(folder), URL, "--client", "codex", "--file", str(file), "--write").exit_code == 0
        entries = tomllib.loads(file.read_text())["mcp_servers"]
    assert entries.pop("crm")["args"] == ["stdio", URL]
    assert entries == tomllib.loads(before)["mcp_servers"]


def test_what_another_program_writes_meanwhile_is_not_lost(home: Path) -> None:
    file = home / "mcp.json"
    file.write_text('{"mcpServers": {"crm": {"command": "old"}}}')

    def change(_: object) -> bool:
        file.write_text('{"theirs": 1}')
        return True

    client = CLIENTS["cursor"]
    with pytest.raises(NotAdded, match="was changed by another program meanwhile: run this again"):
        change_entry(client, file, "crm", client.entry(("new",), None), change)
    assert file.read_text() == '{"theirs": 1}'


def test_a_client_starts_it_with_absolute_paths_and_the_same_options(home: Path) -> None:
    (home / "gateway.yaml").write_text(
        json.dumps(
            {"services": {"crm": {"backend": {"url": URL}}, "erp": {"backend": {"url": URL}}}, "auth": {"mode": "off"}}
        )
    )
    ran = connect(home, "--config", ".", "--service", "erp", "--set", "catalog.ttl=1m", "--token-file", "token")
    entry = json.loads(ran.stdout)["mcpServers"]["erp"]
    assert entry["args"][-9:] == [
        "stdio", "--config", str(home / "gateway.yaml"), "--set", "catalog.ttl=1m", "--service", "erp",
        "--token-file", str(home / "token"),
    ]  # fmt: skip


def test_files_in_options_are_found_from_every_folder(home: Path) -> None:
    (home / "key").write_text("s3cret")
    (home / "m.yaml").write_text("methods: {add: {params: {}}}")
    knobs = (
        "backend.listing={dialect: static, file: m.yaml, timeout: 5s}",
        "catalog.pin=pins.json",
        "telemetry.audit.to=calls.log",
        "backend.credentials={mode: static, send: {headers: {X: 'Bearer ${file:key}'}}}",
        "backend.params.structure=by-name",
    )
    (home / "pins.json").write_text('{"tools": {}}')
    ran = connect(home, URL, *(word for knob in knobs for word in ("--set", knob)))
    assert json.loads(ran.stdout)["mcpServers"]["crm"]["args"][2:] == [
        "--set", f'backend.listing={{"dialect":"static","file":"{home}/m.yaml","timeout":"5s"}}',
        "--set", f"catalog.pin={home}/pins.json",
        "--set", f"telemetry.audit.to={home}/calls.log",
        "--set", f"backend.credentials={{mode: static, send: {{headers: {{X: 'Bearer ${{file:{home}/key}}'}}}}}}",
        "--set", "backend.params.structure=by-name",
    ]  # fmt: skip


IN = "backend.credentials"
STATIC = f"{IN}.mode=static"
SENT = f"{IN}.send={{headers: {{X: '{{t}}'}}}}"
SECRETS = {
    "a text": ((STATIC, f"{IN}.send.headers.X=Bearer s3cret"), f"{IN}.send.headers.X"),
    "in a section": ((f"{IN}={{mode: basic, user: gw, password: s3cret}}",), f"{IN}.password"),
    "in a document": ((STATIC, f"{IN}.send={{headers: {{X-Key: s3cret}}}}"), f"{IN}.send.headers.X-Key"),
    "below a document": ((STATIC, f"{IN}.send.query.key=s3cret"), f"{IN}.send.query.key"),
    "in a list": ((STATIC, f"{IN}.send={{params: [1, s3cret]}}"), f"{IN}.send.params.1"),
    "in a login": (
        (f"{IN}.mode=login", f"{IN}.login={{method: a, params: [s3cret], find: {{t: $.result}}}}", SENT),
        f"{IN}.login.params",
    ),
}


@each(("overrides", "path"), SECRETS)
def test_no_secret_gets_into_an_entry(overrides: tuple[str, ...], path: str) -> None:
    ran = connect(Path.cwd(), URL, *(word for override in overrides for word in ("--set", override)))
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert f"--set {path}: a secret does not belong in a client's file" in ran.stderr
    assert "s3cret" not in ran.stderr


@each("arguments", [(f"{URL}?api_key=s3cret",), ("--set", f"backend.url={URL}?api_key=s3cret")])
def test_no_token_of_a_url_gets_into_an_entry(arguments: tuple[str, ...]) -> None:
    ran = connect(Path.cwd(), *arguments, "--set", "auth.mode=off")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "does not belong in a client's file" in ran.stderr
    assert "s3cret" not in ran.stderr


def test_an_entry_with_the_gateways_url_has_no_secret_to_keep_out(home: Path) -> None:
    fixed = ("--set", STATIC, "--set", f"{IN}.send.headers.X=s3cret")
    ran = connect(home, f"{URL}?api_key=s3cret", *fixed, "--http")
    assert json.loads(ran.stdout)["mcpServers"]["crm"] == {"type": "http", "url": "http://127.0.0.1:8080/mcp"}


def test_a_reference_to_a_secret_and_what_a_login_gives_are_none(home: Path) -> None:
    (home / "key").write_text("s3cret")
    login = f"{{method: a, params: ['${{file:{home}/key}}'], find: {{t: $.result}}}}"
    ran = connect(home, URL, "--set", f"{IN}.mode=login", "--set", f"{IN}.login={login}", "--set", SENT)
    assert ran.exit_code == 0
    assert "s3cret" not in ran.stdout


def test_the_names_of_entries_are_ones_that_all_clients_take(home: Path) -> None:
    for url, name in ((URL, "crm"), ("http://127.0.0.1:1/x", "gateway"), ("http://localhost/x", "gateway")):
        assert [*json.loads(connect(home, url).stdout)["mcpServers"]] == [name]
    ran = connect(home, URL, "--entry", "a b")
    assert ran.exit_code == 2
    assert "use at most 64 letters, digits, hyphens and underscores" in ran.stderr


def test_the_program_is_named_so_that_it_starts_without_a_path(home: Path) -> None:
    command = json.loads(connect(home, URL).stdout)["mcpServers"]["crm"]["command"]
    assert command in (str(Path(sys.executable).with_name("jsonrpc-mcp-gateway")), sys.executable)


def test_the_page_about_clients_shows_what_is_written() -> None:
    page = (Path(__file__).parents[2] / "docs" / "clients.md").read_text()
    command = ("jsonrpc-mcp-gateway", "stdio", "https://crm.example.com/jsonrpc")
    for name, client in CLIENTS.items():
        section = page.partition(f"\n### {client.title}\n")[2].partition("\n##")[0]
        blocks = re.findall(r"```(?:json|toml)\n(.*?)```", section, re.DOTALL)
        shown = [client.entry(command, None)]
        shown += [] if client.http is None else [client.entry((), "http://127.0.0.1:8080/mcp")]
        assert blocks == [client.render({"crm": entry}) for entry in shown], name
        assert f"| `{name}` | {client.title} |" in page
