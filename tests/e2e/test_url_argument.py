"""A URL is enough for a first try, a configuration is found where it usually is, and a person is shown what to do."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shlex
import shutil
import struct
import termios
from pathlib import Path

from click.testing import CliRunner, Result

from gateway.cli import main
from gateway.config.source import ConfigSource
from tests.each import each
from tests.fault.behaviours import Hang
from tests.fault.scripted import ScriptedBackend
from tests.program import run, started
from tests.waiting import PATIENCE

OPEN = "There is no configuration file: authentication is off, on loopback only.\n"
URL = "http://crm.example.com/jsonrpc"
CONFIGURED = json.dumps({"backend": {"url": "http://from.the.file/x"}, "auth": {"mode": "off"}})


async def test_check_of_a_url_needs_nothing_else_and_says_who_may_call(backend: ScriptedBackend) -> None:
    ran = await run("check", backend.url)
    assert (ran.code, ran.err) == (0, OPEN)
    assert f"backend      {backend.url}\n" in ran.out


async def test_a_url_may_stand_before_the_tool_to_call(backend: ScriptedBackend, tmp_path: Path) -> None:
    args = ("--args", '{"a": 2, "b": 3}')
    ran = await run("call", backend.url, "add", *args)
    assert (ran.code, ran.err, json.loads(ran.out)) == (0, "", {"sum": 5})
    (tmp_path / "gateway.yaml").write_text(CONFIGURED.replace("http://from.the.file/x", backend.url))
    ran = await run("call", "add", *args, GATEWAY_CONFIG=str(tmp_path))
    assert (ran.code, ran.err, json.loads(ran.out)) == (0, "", {"sum": 5})


def loaded(file: Path | None, *overrides: str) -> tuple[str, str]:
    defaults = {} if file is not None else {"auth": {"mode": "off"}}
    settings = ConfigSource(file, (*overrides, f"backend.url={URL}"), defaults).load_settings().by_mount[""]
    return settings.backend.url, settings.auth.mode


def test_a_url_stands_in_for_the_one_of_the_configuration_whose_other_knobs_stay(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(
        json.dumps(
            {
                "backend": {"url": "http://from.the.file/x", "credentials": {"mode": "none"}},
                "auth": {"issuers": [{"issuer": "https://login.example.com"}]},
            }
        )
    )
    assert loaded(file) == (URL, "jwt")


def test_authentication_is_off_only_where_nothing_is_said_about_it() -> None:
    assert loaded(None) == (URL, "off")
    issuer = "auth.issuers=[{issuer: https://login.example.com}]"
    assert loaded(None, issuer, "backend.credentials.mode=none") == (URL, "jwt")


def connect(folder: Path, *arguments: str, **environ: str) -> Result:
    """Run a command that shows which configuration it uses, in a folder."""
    strange = {name: None for name in os.environ if name.startswith("GATEWAY_")}
    with contextlib.chdir(folder):
        return CliRunner(env={**strange, **environ}).invoke(main, ["connect", *arguments])


def shown_file(ran: Result) -> str:
    args = json.loads(ran.stdout)["mcpServers"]["from"]["args"]
    return str(args[args.index("--config") + 1])


def test_a_configuration_is_found_by_option_then_variable_then_folder(tmp_path: Path) -> None:
    for name in ("here", "named", "chosen"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "gateway.yaml").write_text(CONFIGURED)
    here, named, chosen = (tmp_path / name / "gateway.yaml" for name in ("here", "named", "chosen"))
    found = connect(here.parent)
    assert shown_file(found) == str(here)
    assert "The configuration is gateway.yaml of this folder.\n" in found.stderr
    for value in (named, named.parent):
        by_variable = connect(here.parent, GATEWAY_CONFIG=str(value))
        assert shown_file(by_variable) == str(named)
        assert "of this folder" not in by_variable.stderr
        by_option = connect(here.parent, "--config", str(chosen.parent), GATEWAY_CONFIG=str(value))
        assert shown_file(by_option) == str(chosen)


@each(
    ("arguments", "said"),
    [
        (("check", "crm.example.com/x"), "crm.example.com/x is not a URL: it begins with http:// or https://"),
        (("call", "crm.example.com/x", "tool"), "crm.example.com/x is not a URL"),
        (("call",), "Missing argument 'TOOL'"),
        (("call", URL), "Missing argument 'TOOL'"),
        (("check", "ftp://crm.example.com/x"), "backend.url: must be an http:// or https:// URL"),
        (("check", "--config", "/nowhere/gateway.yaml"), "/nowhere/gateway.yaml: No such file or directory"),
    ],
)
def test_words_that_are_no_url_are_refused(arguments: tuple[str, ...], said: str) -> None:
    ran = CliRunner(env={"GATEWAY_CONFIG": None}).invoke(main, arguments)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert said in ran.stderr


async def on_a_terminal(*arguments: str, until: str = "", **environ: str) -> str:
    """What a program prints on a terminal of 60 columns; it is ended once it has printed ``until``."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    process = await started(*arguments, environ={"TERM": "xterm", **environ}, output=theirs)
    os.close(theirs)
    printed = ""
    async with asyncio.timeout(PATIENCE):
        with contextlib.suppress(OSError):  # the end of a terminal is an error
            while data := await asyncio.to_thread(os.read, ours, 65536):
                printed += data.decode()
                if until and until in printed and process.returncode is None:
                    process.terminate()
        await process.wait()
    os.close(ours)
    return printed.replace("\r\n", "\n")


async def test_a_person_is_shown_a_table_in_colours_that_no_color_leaves_out(backend: ScriptedBackend) -> None:
    wide = await on_a_terminal("tools", backend.url)
    assert wide.startswith("\x1b[1mTOOL  ARGUMENTS  DESCRIPTION\x1b[0m\n")
    assert "add   a, b       Add two numbers\n" in wide
    checked = await on_a_terminal("check", backend.url, NO_COLOR="1")
    assert "\x1b" not in checked
    assert "tools        4\n" in checked


async def test_a_person_is_told_what_takes_over_a_second(backend: ScriptedBackend) -> None:
    backend.on("rpc.discover", Hang("head"))
    printed = await on_a_terminal("tools", backend.url, until="asking for a listing: ")
    assert f"{backend.url}: asking for a listing: " in printed


async def test_serve_tells_a_person_the_url_and_what_to_type_next(backend: ScriptedBackend) -> None:
    ports = ("--set", "server.port=0", "--set", "server.admin_port=0")
    printed = await on_a_terminal("serve", backend.url, *ports, until="Ctrl-C ends the gateway", NO_COLOR="1")
    (url,) = [line.removeprefix("MCP is at ") for line in printed.splitlines() if line.startswith("MCP is at ")]
    port = url.removeprefix("http://127.0.0.1:").removesuffix("/mcp")
    assert int(port) > 0
    assert f"  curl -s {url}/tools/list\n" in printed
    (connecting,) = [line for line in printed.splitlines() if " connect " in line]
    command, _, words = connecting.partition(" connect ")
    assert shutil.which(shlex.split(command)[0]), "the folder of a virtual environment may not be on the path"
    with contextlib.chdir("/"):
        ran = CliRunner().invoke(main, ["connect", *words.split()[:-1]])  # --write left out
    assert json.loads(ran.stdout)["mcpServers"]["gateway"] == {"type": "http", "url": url}


@each("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_completes(shell: str) -> None:
    script = CliRunner().invoke(main, ["completion", shell])
    assert script.exit_code == 0
    assert "_JSONRPC_MCP_GATEWAY_COMPLETE" in script.stdout


def test_commands_options_and_clients_are_completed() -> None:
    def completed(*words: str) -> set[str]:
        environ = {
            "_JSONRPC_MCP_GATEWAY_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("jsonrpc-mcp-gateway", *words)),
            "COMP_CWORD": str(len(words)),
        }
        ran = CliRunner(env=environ).invoke(main, prog_name="jsonrpc-mcp-gateway")
        return {line.partition(",")[2] for line in ran.stdout.splitlines()}

    assert completed("s") == {"schema", "serve", "status", "stdio"}
    assert "--token-file" in completed("stdio", "--")
    assert completed("connect", "--client", "c") == {"claude-code", "claude-desktop", "codex", "cursor"}


async def test_what_the_url_stands_in_for_is_told_where_there_are_services_alone(tmp_path: Path) -> None:
    hint = "The URL stands in for backend.url; --service NAME says of which service."
    ran = await run("check", URL, "--set", "store.url=nonsense")
    assert ran.code == 2
    assert "store.url: " in ran.err
    assert hint not in ran.err
    (tmp_path / "gateway.yaml").write_text(json.dumps({"services": {"crm": {"backend": {"url": URL}}}}))
    ran = await run("check", URL, GATEWAY_CONFIG=str(tmp_path))
    assert (ran.code, ran.err.splitlines()[-1]) == (2, hint)
