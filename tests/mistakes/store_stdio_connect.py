"""Mistakes with the store, with ``stdio``, and with the entries that ``connect`` writes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import redis

from tests.mistakes.commands import Command, run_all
from tests.mistakes.mistake import Addresses, Mistake, Told
from tests.redis_server import RedisServer
from tests.services.process import free_port
from tests.troubleshooting.places import Places, started
from tests.waiting import wait_until


@dataclass(frozen=True)
class World(Addresses):
    """Hold the places, and the ports of Redis in its kinds."""

    places: Places
    ports: dict[str, int]

    def names(self) -> dict[str, str]:
        addresses = {f"<{name}>": f"127.0.0.1:{port}" for name, port in (self.places.ports | self.ports).items()}
        return {"<url>": self.places.urls["service"], "<dir>": str(self.places.directory), **addresses}


@dataclass(frozen=True)
class Typed:
    """Hold one mistake, and its command line. ``typed`` is the standard input, ``until`` as :class:`Command` has it."""

    mistake: Mistake
    arguments: tuple[str, ...]
    typed: str = ""
    until: str = ""
    folder: str = "<dir>"

    def make(self, world: World) -> Command:
        """Return the command line."""
        arguments = tuple(world.filled(argument) for argument in self.arguments)
        return Command(arguments, self.typed, self.until, world.filled(self.folder), {"HOME": world.filled("<dir>")})


def _set(*knobs: str) -> tuple[str, ...]:
    return tuple(part for knob in knobs for part in ("--set", knob))


def _store(name: str, thing: str, remedy: str, url: str, *knobs: str, code: int = 3) -> Typed:
    secret = () if any("secret_file" in knob for knob in knobs) else ("server.secret_file=<dir>/secret",)
    ground = ("backend.url=<url>", "auth.mode=off", f"store.url={url}", *secret, *knobs)
    return Typed(Mistake(name, thing, remedy, code), ("check", *_set(*ground)))


def _connect(name: str, thing: str, remedy: str, code: int, *arguments: str, client: str = "claude-code") -> Typed:
    options = ("--client", client) if client else ()
    return Typed(Mistake(name, thing, remedy, code), ("connect", *arguments, *options))


STORE: Final = (
    _store("The port of the store is that of a web server.", "does not answer as Redis does", "store.url",
            "redis://<nginx>"),
    _store("The store wants a password, and none is given.", "password", "store.password", "redis://<redis>"),
    _store("The user may not run scripts.", "eval", "rights that docs/deployment.md names",
           "redis://noeval@<free>", "store.password=s3cret"),
    _store("The user may not use our keys.", "keys", "rights that docs/deployment.md names",
           "redis://nokeys@<free>", "store.password=s3cret"),
    _store("The database has a name.", "store.url", "redis://host:6379/0", "redis://<free>/cache", code=2),
    _store("The store's address has no scheme.", "store.url", "redis://", "127.0.0.1:6379", code=2),
    _store("The store's address is http.", "store.url", "redis://", "http://127.0.0.1:6379", code=2),
    _store("The address is that of a Sentinel.", "Sentinel", "redis+sentinel://<sentinel>", "redis://<sentinel>"),
    _store("The address of Sentinel is that of Redis itself.", "Sentinel", "redis://<free>",
           "redis+sentinel://<free>/mymaster/0"),
    _store("The name of the master is misspelled.", "mymastr", "store.url", "redis+sentinel://<sentinel>/mymastr/0"),
    _store("The address of Sentinel has no name of a master.", "store.url",
            "redis+sentinel://host:26379,host:26379/name",
           "redis+sentinel://<sentinel>", code=2),
    _store("The store is one of a Redis Cluster.", "Redis Cluster", "name one server", "redis://<cluster>", code=2),
    _store("The store is a replica, which takes no writes.", "replica", "store.url", "redis://<replica>"),
    _store("The store's password stands in its URL with a sign of URLs.", "store.url", "store.password",
           "redis://:pa/ss@127.0.0.1:6379", code=2),
    _store("A store that replicas share, and no secret that they share.", "store.url", "server.secret_file",
           "redis://<free>", "server.secret_file=", code=2),
    _store("Several workers, and a store in memory.", "server.workers", "store.url", "memory:", "server.workers=2",
            code=2),
    _store("The file with the secret is not there.", "<dir>/absent", "openssl rand", "redis://<free>",
           "server.secret_file=<dir>/absent", code=2),
    _store("The secret is too short.", "<dir>/short", "32", "redis://<free>", "server.secret_file=<dir>/short", code=2),
    _store("The file with the secret is empty.", "<dir>/empty", "32", "redis://<free>",
            "server.secret_file=<dir>/empty",
           code=2),
    _store("Replicas with a store in memory.", "in memory", "", "memory:", "server.secret_file=<dir>/secret",
           code=0),
)  # fmt: skip
PING: Final = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
LIST: Final = '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}\n'
JWT: Final = _set("backend.url=<url>", "backend.credentials.mode=none", "auth.issuers=[{issuer: 'http://<closed>'}]")
STDIO: Final = (
    Typed(Mistake("The client names a file that is not in the folder that it starts in.", "gatway.yaml",
                  "", 2), ("stdio", "--config", "gatway.yaml")),
    Typed(Mistake("stdio has no URL.", "backend.url", "stdio URL", 2), ("stdio",)),
    Typed(Mistake("The configuration lies in the folder, and is not named.", "gateway.yaml", "--config", 2), ("stdio",),
          folder="<dir>/project"),
    Typed(Mistake("What is typed is no JSON.", "JSON", "each line must be one whole JSON-RPC message", 0), ("stdio",
            "<url>"), "hello\n"),
    Typed(Mistake("What is typed is JSON, and no request.", "jsonrpc", 'must be \\"2.0\\"', 0), ("stdio", "<url>"),
          '{"id":1,"method":"tools/list"}\n'),
    Typed(Mistake("A request stands on several lines.", "JSON", "each line must be one whole JSON-RPC message", 0),
            ("stdio", "<url>"),
          json.dumps(json.loads(PING), indent=2) + "\n"),
    Typed(Mistake("The client frames messages as language servers do.", "JSON",
            "each line must be one whole JSON-RPC message", 0),
          ("stdio", "<url>"), f"Content-Length: {len(PING)}\r\n\r\n{PING}"),
    Typed(Mistake("Callers need a token, and the client gives none.", "token", "--token-file", 2), ("stdio", *JWT),
            LIST),
    Typed(Mistake("The file with the token is not there.", "<dir>/absent", "--token-file", 2),
          ("stdio", *JWT, "--token-file", "<dir>/absent"), LIST),
    Typed(Mistake("There are several services, and none is named.", "crm, shop", "--service", 2),
          ("stdio", "--config", "<dir>/two.yaml")),
    Typed(Mistake("The service does not run.", "Nothing listens at <closed>", "Start the service", 0), ("stdio",
            "http://<closed>/jsonrpc"),
          LIST),
    Typed(Mistake("A method of MCP is misspelled.", "tools/lst", "", 0), ("stdio", "<url>"),
          LIST.replace("list", "lst")),
    Typed(Mistake("The tool is called by the name of its method.", "Unknown tool: ad", "Did you mean add?", 0),
          ("stdio", "<url>"), '{"jsonrpc":"2.0","id":1,"method":"ad","params":{}}\n'.replace(
              '"method":"ad","params":{}', '"method":"tools/call","params":{"name":"ad","arguments":{}}')),
    Typed(Mistake("serve is what the client starts.", "gateway started", "", None),
          ("serve", "<url>", *_set("server.port=0", "server.admin_port=0")), LIST, until='"gateway started"'),
)  # fmt: skip
CONNECT: Final = (
    _connect("The name of the client is shortened.", "claude", "claude-code", 2, "<url>", client="claude"),
    _connect("The client's file is no JSON.", "<dir>/bad.json", "Expecting ',' delimiter: line 1", 2, "<url>",
             "--write", "--file", "<dir>/bad.json"),
    _connect("The client's file holds a list.", "<dir>/array.json", "object", 2, "<url>", "--write", "--file",
             "<dir>/array.json"),
    _connect("The client's file is a folder.", "<dir>/project", "file", 2, "<url>", "--write", "--file",
            "<dir>/project"),
    _connect("The folder of the client's file is not there, since it is misspelled.", "<dir>/.curser", "", 0,
             "<url>", "--write", "--file", "<dir>/.curser/deep/mcp.json", client="cursor"),
    _connect("The client's file is read-only.", "read-only", "chmod u+w", 2, "<url>", "--write", "--file",
             "<dir>/locked.json"),
    _connect("The entry is a stranger's.", "not this program's", "--entry", 2, "<url>", "--write", "--entry", "books",
            "--file",
             "<dir>/stranger.json"),
    _connect("One of two entries is a stranger's.", "--service shop", "--entry", 2, "--config",
            "<dir>/two.yaml",
             "--write", "--file", "<dir>/half.json"),
    _connect("Two services, and one name for the entry.", "--entry", "--service", 2, "--config", "<dir>/two.yaml",
             "--entry", "books"),
    _connect("The name of the service is misspelled.", "crn", "did you mean crm", 2, "--config", "<dir>/two.yaml",
             "--service", "crn"),
    _connect("There is nothing to remove.", "no entry", "named with --entry", 0, "<url>", "--remove", "--entry",
            "boks", "--file",
             "<dir>/ours.json"),
    _connect("The file to remove from is not there.", "<dir>/absent.json", "another file with --file", 0, "<url>",
            "--remove", "--file",
             "<dir>/absent.json"),
    _connect("Both --write and --remove.", "--write", "--remove", 2, "<url>", "--write", "--remove"),
    _connect("--write for a client without a usual file.", "--write needs --client", "--file", 2, "<url>", "--write",
            client="json"),
    _connect("Claude Desktop's file takes no URL.", "Claude Desktop", "Connectors", 2, "<url>", "--http", "--write",
             client="claude-desktop"),
    _connect("--client-id without --http.", "--client-id", "--http", 2, "<url>", "--client-id", "mcp"),
    _connect("--token-file with --http.", "--token-file", "--http", 2, "<url>", "--http", "--token-file",
            "<dir>/token"),
    _connect("connect has no URL.", "backend.url", "connect URL", 2),
    _connect("A secret stands on the command line.", "password", "${file:", 2, "<url>", *_set(
        "backend.credentials.mode=basic", "backend.credentials.user=ann", "backend.credentials.password=pa55w0rd")),
    _connect("The URL has no http://.", "is not a URL", "begins with http:// or https://", 2, "127.0.0.1:8000/jsonrpc"),
    # Gemini CLI's own form: the entry is ours.
    Typed(Mistake("The client wrote our entry in a form of its own.", "has the entry books", "", 0),
          ("connect", "<url>", "--http", "--write", "--client", "gemini", "--entry", "books", "--file",
           "<dir>/gemini.json")),
)  # fmt: skip
ROWS: Final = (*STORE, *STDIO, *CONNECT)

_STRANGER: Final = {"command": "npx", "args": ["-y", "books-server"]}
FILES: Final[dict[str, Any]] = {
    "short": "0123456789\n",
    "empty": "",
    "token": "eyJhbGciOiJFUzI1NiJ9.e30.c2ln\n",
    "two.yaml": "auth: {mode: 'off'}\nservices:\n  crm: {backend: {url: 'http://127.0.0.1:8001/jsonrpc'}}\n"
    "  shop: {backend: {url: 'http://127.0.0.1:8002/jsonrpc'}}\n",
    "project/gateway.yaml": "auth: {mode: 'off'}\nbackend: {url: 'http://127.0.0.1:8001/jsonrpc'}\n",
    "bad.json": '{"mcpServers": {"books": {"command": "npx" "args": []}}}\n',
    "array.json": "[]\n",
    "locked.json": '{"mcpServers": {}}\n',
    "stranger.json": {"mcpServers": {"books": _STRANGER}},
    "half.json": {"mcpServers": {"shop": _STRANGER}},
    "ours.json": {
        "mcpServers": {"books": {"command": "jsonrpc-mcp-gateway", "args": ["stdio", "http://127.0.0.1:1/"]}}
    },
    "gemini.json": {"mcpServers": {"books": {"httpUrl": "http://127.0.0.1:8080/mcp"}}},
}


async def tell() -> dict[str, Told]:
    """Make all the mistakes once, and return what each is told."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        places = stack.enter_context(started(directory))
        ports = {name: stack.enter_context(server(directory)).port for name, server in _SERVERS.items()}
        world = World(places, ports | {"sentinel": stack.enter_context(_sentinel(directory, ports["free"])).port})
        _prepare(ports)
        for name, text in FILES.items():
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_text(text if isinstance(text, str) else json.dumps(text, indent=2))
        (directory / "locked.json").chmod(0o444)
        for name in ("short", "empty"):
            (directory / name).chmod(0o600)
        told = await run_all({row.mistake.name: row.make(world) for row in ROWS})
        return {name: Told(one.code, world.named(one.text)) for name, one in told.items()}


_SERVERS: Final[dict[str, Callable[[Path], RedisServer]]] = {
    "free": lambda _: RedisServer(),
    "cluster": lambda folder: RedisServer(
        "--cluster-enabled", "yes", "--cluster-port", str(free_port()), folder=folder
    ),
    "replica": lambda _: RedisServer(),
}


def _sentinel(directory: Path, master: int) -> RedisServer:
    folder = directory / "sentinel"
    folder.mkdir()
    (folder / "sentinel.conf").write_text(f"sentinel monitor mymaster 127.0.0.1 {master} 1\n")
    return RedisServer(sentinel=folder / "sentinel.conf", folder=folder, port=free_port())


def _prepare(ports: dict[str, int]) -> None:
    """Give Redis users that lack a right, and a replica its master."""
    with redis.Redis(port=ports["free"]) as free, redis.Redis(port=ports["replica"]) as replica:
        free.acl_setuser("noeval", enabled=True, passwords=["+s3cret"], keys=["*"], channels=["*"],
                         commands=["+@all", "-eval", "-evalsha"])  # fmt: skip
        free.acl_setuser("nokeys", enabled=True, passwords=["+s3cret"], keys=["shop:*"], channels=["*"],
                         commands=["+@all"])  # fmt: skip
        replica.replicaof("127.0.0.1", ports["free"])
        wait_until(lambda: replica.info("replication")["master_link_status"] == "up")
