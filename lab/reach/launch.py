"""Start the services that only ``make reach`` needs, beside those of tests/services/launch.py."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.services.process import Service, ServiceMissing, free_port, require_module, require_node, require_program

HERE: Final = Path(__file__).parent
APPS: Final = HERE / "apps"
PYTHON: Final = HERE / "python" / ".venv" / "bin" / "python"
NODE_MODULES: Final = HERE / "node" / "node_modules"
ZABBIX: Final = "/usr/share/zabbix/api_jsonrpc.php"
ZABBIX_SQL: Final = "/usr/share/zabbix-server-pgsql/schema.sql.gz"
ZABBIX_PACKAGES: Final = "zabbix-frontend-php zabbix-server-pgsql"
KODI: Final = "/usr/lib/x86_64-linux-gnu/kodi/kodi.bin"

_KAMAILIO: Final = r"""#!KAMAILIO
log_stderror=yes
listen=tcp:127.0.0.1:%s
tcp_accept_no_cl=yes
loadmodule "sl.so"
loadmodule "xhttp.so"
loadmodule "jsonrpcs.so"
loadmodule "pv.so"
loadmodule "htable.so"
modparam("jsonrpcs", "transport", 1)
modparam("htable", "htable", "rooms=>size=4;")
request_route { drop; }
event_route[xhttp:request] { jsonrpc_dispatch(); }
"""
_KODI: Final = """<settings version="2">
<setting id="services.webserver">true</setting>
<setting id="services.webserverport">%s</setting>
<setting id="services.webserverauthentication">false</setting>
</settings>
"""
_ROOMS: Final = (
    '{"name": "Rooms", "version": "1.0.0", "tables": {"Room": {"columns": {"name": {"type": "string"}, '
    '"beds": {"type": "integer"}}, "isRoot": true}}}'
)
# It asks the network for announcements, unless it is in development.
_MOONRAKER: Final = """[server]
host: 127.0.0.1
port: %s
[machine]
provider: none
[authorization]
trusted_clients: 127.0.0.1
[announcements]
dev_mode: True
"""


def django_modern_rpc(more: int = 0) -> Service:
    """PyPI django-modern-rpc: ``system.listMethods`` with signatures and help; ``more`` methods than two."""
    return _app("django_app", "/rpc", "--package", "modernrpc", "--more", str(more))


def rpc4django() -> Service:
    """PyPI rpc4django: ``system.describe`` in a form of its own; params in a list alone."""
    return _app("django_app", "/rpc", "--package", "rpc4django")


def pjrpc() -> Service:
    """PyPI pjrpc: an OpenRPC document by GET alone."""
    return _app("pjrpc_app", "/api/v1")


def ovsdb() -> Service:
    """Debian's ovsdb-server with a database: on TCP, and on the Unix sockets ``db`` and, to control it, ``ctl``."""
    tool, program = (require_program(name, "openvswitch-common") for name in ("ovsdb-tool", "ovsdb-server"))
    remotes = "--remote=ptcp:$0:127.0.0.1 --remote=punix:$PWD/db --unixctl=$PWD/ctl"
    script = f"printf '{_ROOMS}' >schema && {tool} create rooms schema && exec {program} {remotes} rooms"
    return Service("ovsdb", lambda port: ["env", "OVS_RUNDIR=.", "sh", "-c", script, str(port)], "", "tcp")


def snapserver() -> Service:
    """Debian's snapserver, which streams sound to nobody: a message in each line, and no listing."""
    program = require_program("snapserver", "snapserver")
    sound = "--http.enabled false --stream.bind_to_address 127.0.0.1 --stream.port $1 --stream.source pipe://$PWD/sound"
    control = "-c /dev/null --server.datadir $PWD --tcp.bind_to_address 127.0.0.1 --tcp.port $0"
    script = f"HOME=$PWD exec {program} {control} {sound}'?name=default&mode=create'"
    return Service("snapserver", lambda port: ["sh", "-c", script, str(port), str(free_port())], "", "tcp")


def moonraker() -> Service:
    """PyPI Moonraker without a printer: JSON-RPC by POST, and no listing."""
    program = str(_python().with_name("moonraker"))
    script = f"mkdir -p logs && printf '{_MOONRAKER}' $0 >conf && exec {program} -d . -c conf"
    return Service("moonraker", lambda port: ["sh", "-c", script, str(port)], "/server/jsonrpc")


def ganache() -> Service:
    """npm ganache, a development node of Ethereum: no listing; params in a list alone."""
    program = _package("ganache", "dist/node/cli.js")
    options = ["--server.host=127.0.0.1", "--wallet.deterministic", "--logging.quiet"]
    return Service("ganache", lambda port: [require_node(), program, *options, f"--server.port={port}"])


def rpc_websockets() -> Service:
    """npm rpc-websockets: WebSocket alone, with ``__listMethods``."""
    _package("rpc-websockets", "package.json")
    command = [require_node(), str(APPS / "rpc_websockets_app.js")]
    return Service("rpc-websockets", lambda port: [*command, str(port), str(NODE_MODULES)]).over("ws", "/")


def hardhat() -> Service:
    """npm hardhat, another one."""
    _package("hardhat", "package.json")
    # It runs only where it is installed below the working directory.
    script = f"ln -s {NODE_MODULES} . && echo 'module.exports = {{}};' >hardhat.config.js && exec {require_node()} "
    script += "node_modules/hardhat/internal/cli/cli.js node --hostname 127.0.0.1 --port $0"
    return Service("hardhat", lambda port: ["env", "HOME=.", "CI=true", "sh", "-c", script, str(port)])


def kamailio() -> Service:
    """Debian's kamailio, a SIP server with ``system.listMethods`` and help; it takes JSON-RPC on the port for SIP."""
    program = require_program("kamailio", "kamailio")
    script = f"printf '{_KAMAILIO}' $0 >conf && exec {program} -f conf -DD -E -m 32 -M 8 -Y ."
    return Service("kamailio", lambda port: ["sh", "-c", script, str(port)], "/RPC")


def kodi() -> Service:
    """Debian's kodi on a screen in memory: ``JSONRPC.Introspect``."""
    if not Path(KODI).exists():
        raise ServiceMissing(f"{KODI} is missing: apt-get install kodi-bin kodi-data")
    screen = require_program("xvfb-run", "xvfb xauth")
    script = (
        f"mkdir -p .kodi/userdata && printf '{_KODI}' $0 >.kodi/userdata/guisettings.xml && "
        f"HOME=$PWD TMPDIR=$PWD exec {screen} -a -s '-screen 0 320x240x24 -nolisten tcp' {KODI} --windowing=x11"
    )
    return Service("kodi", lambda port: ["sh", "-c", script, str(port)], "/jsonrpc")


def zabbix() -> Service:
    """Debian's Zabbix frontend on a PostgreSQL of its own: no listing; ``auth`` in each message."""
    for program, package in {"php": "php-cli php-pgsql", "psql": "postgresql", "runuser": "util-linux"}.items():
        require_program(program, package)
    if not (Path(ZABBIX).exists() and Path(ZABBIX_SQL).exists()):
        raise ServiceMissing(f"{ZABBIX} or {ZABBIX_SQL} is missing: apt-get install {ZABBIX_PACKAGES}")
    return _own("zabbix", "/api_jsonrpc.php")


def fortimanager() -> Service:
    """A stand-in for FortiManager, over https with a certificate of its own."""
    return _own("fortimanager", "/jsonrpc", "https")


def mcp_server() -> Service:
    """PyPI mcp: what needs no gateway. Its address is given as host and port alone."""
    require_module("mcp", "mcp")
    return _own("mcp_server", "/")


def transmission() -> Service:
    """Debian's transmission-daemon 3.00, which speaks a protocol of its own, as host and port alone."""
    program = require_program("transmission-daemon", "transmission-daemon")
    options = [
        "--foreground",
        "--config-dir=.",
        "--rpc-bind-address=127.0.0.1",
        "--no-portmap",
        "--no-dht",
        "--no-auth",
    ]
    return Service("transmission", lambda port: [program, *options, f"--port={port}"])


def _own(name: str, path: str, scheme: str = "http") -> Service:
    """Return a program of ``apps`` that runs with the project's Python."""
    command = [sys.executable, str(APPS / f"{name}.py"), "--port"]
    return Service(name, lambda port: [*command, str(port)], path, scheme)


def _app(name: str, path: str, *options: str) -> Service:
    command = [str(_python()), str(APPS / f"{name}.py"), *options]
    return Service(name, lambda port: [*command, "--port", str(port)], path)


def _python() -> Path:
    if not (PYTHON.parent.parent / ".installed").exists():
        raise ServiceMissing("the Python packages of lab/reach are missing: run tests/install.sh PYTHON reach")
    return PYTHON


def _package(name: str, file: str) -> str:
    path = NODE_MODULES / name / file
    if not path.exists():
        raise ServiceMissing(f"npm package {name} is missing: run tests/install.sh PYTHON reach")
    return str(path)
