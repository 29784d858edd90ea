"""Mistakes on the command line. Each expectation was written before its row was run."""

from __future__ import annotations

from typing import Final

from tests.mistakes.row import OFF, START, URL, Row, typed

_SERVICES: Final = (
    f"{OFF}services:\n  crm: {{backend: {{url: {URL}}}}}\n  shop: {{backend: {{url: http://127.0.0.1:8001/jsonrpc}}}}\n"
)

OPTIONS: Final = (
    typed("a command misspelled", "chekc", "Did you mean 'check'", "chekc", "@URL@"),
    typed("a URL without a command", "@URL@", "serve URL", "@URL@"),
    typed("help as a command", "help", "--help", "help"),
    typed("an option before the command", "--config", "serve --config", "--config", "gateway.yaml", "serve",
          gateway__yaml=START),
    typed("a port as an option", "--port", "--set server.port", "serve", "@URL@", "--port", "9000"),
    typed("a host as an option", "--host", "--set server.host", "serve", "@URL@", "--host", "0.0.0.0"),
    typed("an option misspelled", "--confg", "--config", "serve", "--confg", "gateway.yaml", gateway__yaml=START),
    typed("an option of other programs", "--verbose", "--help", "check", "@URL@", "--verbose"),
    typed("--set without =", "--set server.port", "section.knob=value", "serve", "@URL@", "--set", "server.port"),
    typed("--set with a space for =", "9000", "--set section.knob=value", "serve", "--set", "server.port", "9000",
          gateway__yaml=START),
    typed("--set with spaces around =", "server.port", "without blanks", "serve", "@URL@", "--set",
          "server.port = 80800"),
    typed("--set of a knob misspelled", "server.prot", "did you mean port?", "serve", "@URL@", "--set",
          "server.prot=9000"),
    typed("--set without the section", "port", "did you mean server.port?", "serve", "@URL@", "--set", "port=9000"),
    typed("--set of a list as text", "catalog.include", "must be a list, such as [one, two]", "serve", "@URL@", "--set",
          "catalog.include=books.*"),
    typed("a knob without --set", "server.port=9000", "stands --set", "serve", "@URL@", "server.port=9000"),
    typed("a file that is not there", "gw.yaml", "--minimal", "serve", "--config", "gw.yaml"),
    typed("a folder without the file", "gateway.yaml: No such file", "--minimal", "serve", "--config", "."),
    typed("--config twice", "--config", "stands once", "serve", "--config", "a.yaml", "--config", "b.yaml",
          a__yaml=START, b__yaml=START),
    typed("nothing to serve", "backend.url", "Name the service: jsonrpc-mcp-gateway serve URL, or a file", "serve"),
)  # fmt: skip

URLS: Final = (
    typed("a URL without its scheme", "127.0.0.1:@PORT@/jsonrpc", "it begins with http://",
          "check", "127.0.0.1:@PORT@/jsonrpc"),
    typed("a URL with one slash", "http:/127.0.0.1:@PORT@/jsonrpc", "it begins with http://", "check",
          "http:/127.0.0.1:@PORT@/jsonrpc"),
    typed("a URL of a stranger's protocol", "must be an http://", "ws://", "check", "ftp://127.0.0.1:@PORT@/jsonrpc"),
    typed("the file in place of the URL", "gateway.yaml", "a file is --config FILE", "check", "gateway.yaml",
          gateway__yaml=START),
    typed("two URLs", "http://127.0.0.1:8001/", "Several services stand in a file", "check", "@URL@",
          "http://127.0.0.1:8001/"),
    typed("a port that is taken", "@PORT@", "server.port", "serve", "@URL@", "--set", "server.port=@PORT@",
          "--set", "server.admin_port=0"),
)  # fmt: skip

CALLS: Final = (
    typed("call without a tool", "TOOL", "tools @URL@", "call", "@URL@"),
    typed("call of an unknown tool", "ad", "Did you mean add?", "call", "@URL@", "ad", code=1),
    typed("the tool before the URL", "add", "a tool stands last", "call", "add", "@URL@"),
    typed("arguments without --arg", "a=2", "--arg a=2", "call", "@URL@", "add", "a=2", "b=3"),
    typed("a value without the name of its argument", "5", "stands --arg", "call", "@URL@", "slow", "5"),
    typed("--arg without =", "--arg", "NAME=VALUE", "call", "@URL@", "add", "--arg", "a"),
    typed("an argument of an unknown name", "'c'", "valid are a, b", "call", "@URL@", "add", "--arg", "a=2", "--arg",
          "c=3", code=1),
    typed("an argument that is missing", "a", "required", "call", "@URL@", "add", "--arg", "b=2", code=1),
    typed("an argument of another type", "a", "integer", "call", "@URL@", "add", "--arg", "a=two", code=1),
    typed("arguments that are not JSON", "--args", "such as '{\"name\": 1}'", "call", "@URL@", "add", "--args",
          "{a: 2}"),
    typed("arguments that are a list", "--args", "object", "call", "@URL@", "add", "--args", "[2, 3]"),
    typed("a token file that is not there", "--token-file token", "No such file", "check", "@URL@", "--token-file",
          "token"),
    typed("a token on the command line", "--token", "--token-file", "check", "@URL@", "--token", "eyJhbGciOi"),
)  # fmt: skip

CHOICES: Final = (
    typed("an unknown format", "yml", "'yaml'", "schema", "--format", "yml"),
    typed("--minimal of another format", "--minimal", "--format yaml", "schema", "--minimal", "--format", "methods"),
    typed("an unknown client", "chatgpt", "json", "connect", "@URL@", "--client", "chatgpt"),
    typed("an entry written for no client", "--write", "--client", "connect", "@URL@", "--write"),
    typed("a service where there is one only", "--service crm", "leave --service out", "tools", "--service", "crm",
          gateway__yaml=START),
    typed("no service where there are several", "--service", "crm, shop", "tools", gateway__yaml=_SERVICES),
    typed("an unknown service", "CMR", "there are crm, shop", "tools", "--service", "CMR", gateway__yaml=_SERVICES),
    typed("tools pinned to no file", "catalog.pin", "--set catalog.pin=", "tools", "@URL@", "--pin"),
    typed("a difference to no file", "before.json", "tools --json", "tools", "@URL@", "--diff", "before.json"),
    typed("a tool tried that is not read-only", "add", "readOnlyHint", "tools", "@URL@", "--try", "add", "--arg",
          "a=1"),
    typed("an unknown shell", "powershell", "bash", "completion", "powershell"),
    typed("a port of the demo without its option", "9000", "The port is --port 9000", "demo", "9000"),
)  # fmt: skip

ROWS: Final[tuple[Row, ...]] = (*OPTIONS, *URLS, *CALLS, *CHOICES)
