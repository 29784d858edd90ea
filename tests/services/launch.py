"""Starts the services that the gateway is tested against, each on a free port of 127.0.0.1, and stops them.

    with openrpc_app() as service:
        post(service.url, ...)

A program or package that is missing is an error that names what to install, never a skipped test.
"""

import hashlib
import json
import os
import shlex
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from tests.services.process import Service, ServiceMissing, require_module, require_node, require_program

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BACKENDS = HERE / "backends"
NODE_PROJECT = HERE / "node"
FLASK2_PYTHON = HERE / "flask2" / ".venv" / "bin" / "python"

ARIA2_SECRET = "s3cret"
LOGIN_PASSWORD = "sesame-0pens"


class Drupal(Service):
    """Our Drupal, which remembers what it was asked."""

    def requests(self) -> list[dict[str, Any]]:
        """Every request so far, oldest first: method, path with query, headers (lower case names), body."""
        seen: list[dict[str, Any]] = self._ask("GET")
        return seen

    def forget_requests(self) -> None:
        self._ask("DELETE")

    def _ask(self, method: str) -> Any:
        request = urllib.request.Request(f"{self.base}/_test/requests", method=method)
        with urllib.request.urlopen(request, timeout=5) as response:
            return json.load(response)


def aria2() -> Service:
    """Debian's aria2c, by position only, with the secret `token:s3cret` as first parameter."""
    program = require_program("aria2c", "aria2")
    flags = (
        "--no-conf=true",
        "--enable-rpc",
        "--rpc-listen-all=false",
        f"--rpc-secret={ARIA2_SECRET}",
        "--dir=.",
    )
    # Its output stays silent with --quiet, also about a port that is taken: hence errors to the console.
    console = ("--console-log-level=error", "--summary-interval=0", "--show-console-readout=false")
    # Without --stop-with-process it would outlive a test run that was killed.
    life = f"--stop-with-process={os.getpid()}"
    return Service("aria2", lambda port: [program, *flags, *console, life, f"--rpc-listen-port={port}"], "/jsonrpc")


def deluge() -> Service:
    """Debian's deluge-web with the password ``deluge``: JSON-RPC 1.0; a cookie to call, and none to list."""
    program = require_program("deluge-web", "deluge-web")
    command = [program, "--do-not-daemonize", "--config", "conf", "--interface", "127.0.0.1", "--loglevel", "error"]
    return Service("deluge", lambda port: [*command, "--port", str(port)], "/json")


def electrum() -> Service:
    """Debian's electrum as a daemon without a network, user ``u``, password ``p``: names alone."""
    program = require_program("electrum", "electrum")
    knobs = {"rpcuser": "u", "rpcpassword": "p", "rpchost": "127.0.0.1", "rpcport": "$0"}
    base = f"{program} --regtest --offline -D ."
    script = "".join(f"{base} setconfig {knob} {value} >/dev/null && " for knob, value in knobs.items())
    return Service("electrum", lambda port: ["sh", "-c", f"{script}exec {base} daemon", str(port)], "/")


def i2pd(pem: Path | None = None) -> Service:
    """Debian's i2pd, password ``sesame-0pens``, over https with the key and the certificate in ``pem``, else with those
    that it makes. It is alone in its network, and lists nothing."""
    program = require_program("i2pd", "i2pd")
    off = [f"--{part}.enabled=0" for part in ("http", "httpproxy", "socksproxy", "sam", "ssu2", "addressbook")]
    nowhere = "http://127.0.0.1:1/"
    alone = [
        "--netid=99",
        "--notransit",
        "--ntcp2.published=0",
        f"--reseed.urls={nowhere}",
        f"--reseed.yggurls={nowhere}",
    ]
    control = ["--i2pcontrol.enabled=1", f"--i2pcontrol.password={LOGIN_PASSWORD}"]
    command = [
        program,
        "--conf=/dev/null",
        "--tunconf=/dev/null",
        "--datadir=data",
        "--log=stdout",
        *off,
        *alone,
        *control,
    ]
    keys = [f"--i2pcontrol.cert={pem}", f"--i2pcontrol.key={pem}"] if pem else []
    return Service("i2pd", lambda port: [*command, *keys, f"--i2pcontrol.port={port}"], scheme="https")


def mopidy() -> Service:
    """Debian's mopidy, which plays into nothing."""
    program = require_program("mopidy", "mopidy")
    knobs = ("http/hostname=127.0.0.1", "audio/output=fakesink", "mpd/enabled=false", "file/enabled=false")
    options = [part for knob in knobs for part in ("-o", knob)]
    # It keeps files where these say, else in the home directory.
    folders = ["env", "XDG_CONFIG_HOME=.", "XDG_CACHE_HOME=.", "XDG_DATA_HOME=."]
    return Service("mopidy", lambda port: [*folders, program, *options, "-o", f"http/port={port}"], "/mopidy/rpc")


def monerod() -> Service:
    """Debian's monerod without a network, user ``gateway``, password ``sesame-0pens``: HTTP Digest, no listing."""
    program = require_program("monerod", "monero")
    chain = ["--regtest", "--offline", "--fixed-difficulty=1", "--data-dir=.", "--non-interactive", "--no-zmq"]
    command = [program, *chain, f"--rpc-login=gateway:{LOGIN_PASSWORD}", "--rpc-bind-ip=127.0.0.1"]
    return Service("monerod", lambda port: [*command, f"--rpc-bind-port={port}"], "/json_rpc")


def transmission() -> Service:
    """Debian's transmission-daemon, user ``admin``, password ``sesame-0pens``: Basic, and an id that a 409 gives."""
    program = require_program("transmission-daemon", "transmission-daemon")
    command = [program, "--foreground", "--config-dir=.", "--rpc-bind-address=127.0.0.1", "--no-portmap", "--no-dht"]
    login = ["--auth", "--username=admin", f"--password={LOGIN_PASSWORD}"]
    return Service("transmission", lambda port: [*command, *login, f"--port={port}"], "/transmission/rpc")


def tryton() -> Service:
    """Debian's trytond with the database ``demo`` and the user ``admin``, password ``admin``: JSON-RPC 1.0, and only to
    users. The empty database is kept in ``.cache``: it takes twenty times as long to make as to copy."""
    require_program("trytond", "tryton-server")
    make = (
        "echo admin >pass && touch demo.sqlite && "
        "TRYTONPASSFILE=pass trytond-admin -c conf -d demo --all --email admin@tryton.example"
    )
    versions = subprocess.run(["dpkg-query", "-W", "tryton-*"], capture_output=True, check=True).stdout
    kept = ROOT / ".cache" / "tryton" / f"{hashlib.sha256(versions + make.encode()).hexdigest()[:16]}.sqlite"
    kept.parent.mkdir(parents=True, exist_ok=True)
    configuration = r"[web]\nlisten = 127.0.0.1:%s\n[database]\nuri = sqlite:///\npath = %s\n"
    script = f"""
        set -e
        kept={shlex.quote(str(kept))}
        printf '{configuration}' $0 "$PWD" >conf
        if [ ! -f demo.sqlite ] && [ -f "$kept" ]; then cp "$kept" demo.sqlite; fi
        if [ ! -f demo.sqlite ]; then
            {make}
            cp demo.sqlite "$kept.$$"  # another worker may do the same: it is there whole or not at all
            mv "$kept.$$" "$kept"
        fi
        exec trytond -c conf
    """
    return Service("tryton", lambda port: ["sh", "-c", script, str(port)], "/demo/")


def openrpc_app() -> Service:
    """PyPI openrpc."""
    return _python("openrpc_app", "/jsonrpc", {"openrpc": "openrpc", "aiohttp": "aiohttp"})


def pelix_app() -> Service:
    """PyPI jsonrpclib-pelix."""
    return _python("pelix_app", "/", {"jsonrpclib": "jsonrpclib-pelix"})


def fastapi_app() -> Service:
    """PyPI fastapi-jsonrpc."""
    return _python("fastapi_app", "/api/v1/jsonrpc", {"fastapi_jsonrpc": "fastapi-jsonrpc", "uvicorn": "uvicorn"})


def flask_app() -> Service:
    """PyPI Flask-JSONRPC 4."""
    return _python("flask_app", "/api", {"flask_jsonrpc": "Flask-JSONRPC"})


def gunicorn_app(keep_alive: int) -> Service:
    """The same under PyPI gunicorn, which closes a connection that is idle for ``keep_alive`` seconds."""
    for module, package in {"flask_jsonrpc": "Flask-JSONRPC", "gunicorn": "gunicorn"}.items():
        require_module(module, package)
    command = [sys.executable, "-m", "gunicorn", "--worker-class=gthread", "--threads=16", "--worker-tmp-dir=."]
    more = [f"--keep-alive={keep_alive}", f"--pythonpath={BACKENDS}", "--log-level=warning", "flask_app:app"]
    return Service("gunicorn_app", lambda port: [*command, f"--bind=127.0.0.1:{port}", *more], "/api")


def flask2_app() -> Service:
    """PyPI Flask-JSONRPC 2.2.2, in an environment of its own."""
    if not (FLASK2_PYTHON.parent.parent / ".installed").exists():
        raise ServiceMissing(
            "Python package Flask-JSONRPC 2.2.2 is missing: run tests/install.sh with the venv's python"
        )
    command = [str(FLASK2_PYTHON), str(BACKENDS / "flask2_app.py")]
    return Service("flask2_app", lambda port: [*command, "--port", str(port)], "/api")


def openrpc_server(pem: Path | None = None, clients_ca: Path | None = None) -> Service:
    """npm @open-rpc/server-js; over https with the key and the certificates in `pem`, and for clients by `clients_ca`
    alone where that is given."""
    node = require_node()
    for package in ("@open-rpc/server-js", "@open-rpc/schema-utils-js"):
        if not (NODE_PROJECT / "node_modules" / package / "package.json").exists():
            raise ServiceMissing(f"npm package {package} is missing: run tests/install.sh with the venv's python")
    program = str(BACKENDS / "openrpc_server.mjs")
    tls = ["--pem", str(pem)] if pem else []
    tls += ["--clients-ca", str(clients_ca)] if clients_ca else []
    scheme = "https" if pem else "http"
    return Service("openrpc_server", lambda port: [node, program, "--port", str(port), *tls], scheme=scheme)


def drupal(
    *,
    version: int | None = None,
    mcp: bool = False,
    page_size: int = 50,
    anonymous: bool = False,
    discovery: bool = True,
    jwks: str = "",
    audience: str = "",
) -> Drupal:
    """Our Drupal; `version` of its module jsonrpc is 2 when not given, with `mcp` 3. With `jwks`, the URL of a key set,
    tokens for `audience` count that are signed so."""
    require_module("aiohttp", "aiohttp")
    options = ["--page-size", str(page_size)]
    options += ["--version", str(version)] if version else []
    options += ["--mcp"] if mcp else []
    options += ["--anonymous"] if anonymous else []
    options += [] if discovery else ["--no-discovery"]
    options += ["--jwks", jwks, "--audience", audience] if jwks else []
    program = [sys.executable, str(BACKENDS / "drupal.py")]
    return Drupal("drupal", lambda port: [*program, "--port", str(port), *options], "/jsonrpc")


def _python(name: str, path: str, packages: dict[str, str]) -> Service:
    for module, package in packages.items():
        require_module(module, package)
    program = str(BACKENDS / f"{name}.py")
    return Service(name, lambda port: [sys.executable, program, "--port", str(port)], path)
