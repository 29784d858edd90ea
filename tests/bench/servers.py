"""Starting everything that takes part: the constant backend, the yardsticks, the rival and the gateway."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from tests.bench import work
from tests.bench.load import Lane
from tests.bench.machine import Process, Unusable, free_port, nginx_echo_module, program

_HERE = Path(__file__).parent
_ENVIRONMENT = _HERE.parents[1] / ".venv-bench"

# The id of an answer has to be the id of its request. echo_read_request_body makes $request_body known before
# the answer is put together; it costs nginx nothing that shows.
_NGINX = """
load_module {module};
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  map $request_body $rpc_id {{ default null; '~"id":\\s*(?<found>"[^"]*"|\\d+)' $found; }}
  server {{
    listen 127.0.0.1:{port};
    default_type application/json;
    location / {{ echo_read_request_body; echo_exec @answer; }}
    location @answer {{ return 200 '{{"jsonrpc":"2.0","id":$rpc_id,"result":{result}}}'; }}
  }}
}}
"""


def rival_python() -> Path:
    """The interpreter of the rival's environment, which is made where it is missing or out of date."""
    wanted = (_HERE / "requirements.txt").read_text()
    made, python = _ENVIRONMENT / "made-of.txt", _ENVIRONMENT / "bin" / "python"
    if made.exists() and made.read_text() == wanted:
        return python
    print(f"making {_ENVIRONMENT.name} (once) ...", file=sys.stderr, flush=True)
    steps: tuple[list[str | Path], ...] = (
        [sys.executable, "-m", "venv", "--clear", _ENVIRONMENT],
        [python, "-m", "pip", "install", "--quiet", "-r", _HERE / "requirements.txt"],
    )
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unusable(f"{' '.join(map(str, step))} failed:\n{done.stderr[-2000:]}")
    made.write_text(wanted)
    return python


class Field:
    """Everybody who takes part, started; ``with`` ends what it started. Files go to ``folder`` only."""

    def __init__(self, folder: Path, load_core: int, core: int) -> None:
        self._folder = folder
        self._load_core = load_core
        self._core = core
        self._stack = ExitStack()
        self._backend_port = free_port()
        self.url = f"http://127.0.0.1:{self._backend_port}/jsonrpc"

    def __enter__(self) -> Field:
        try:
            self._start_backend()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start_backend(self) -> None:
        config = self._folder / "nginx.conf"
        result = json.dumps(work.RESULT, separators=(",", ":"))
        config.write_text(
            _NGINX.format(module=nginx_echo_module(), folder=self._folder, port=self._backend_port, result=result)
        )
        command: list[str | Path] = [program("nginx"), "-e", "stderr", "-p", self._folder, "-c", config]
        process = Process(command, self._load_core, self._folder / "nginx.log")
        self._enter(Lane("nginx", process, self._backend_port, work.PLAIN_CALL))

    def _enter(self, lane: Lane) -> Lane:
        self._stack.enter_context(lane.process)
        lane.process.wait_until(lane.answers)
        return lane

    def _lane(self, name: str, command: list[str | Path], port: int, workload: work.Workload) -> Lane:
        return Lane(name, Process(command, self._core, self._folder / f"{port}.log"), port, workload)

    def bare_proxy(self) -> Lane:
        port = free_port()
        command: list[str | Path] = [sys.executable, "-m", "tests.bench.bare_proxy", str(port), self.url]
        return self._enter(self._lane("bare proxy, call", command, port, work.PLAIN_CALL))

    def static_answer(self, body: bytes) -> Lane:
        """aiohttp answering these bytes, whatever is asked."""
        port, page = free_port(), self._folder / "page.json"
        page.write_bytes(body)
        command: list[str | Path] = [sys.executable, "-m", "tests.bench.static_answer", str(port), page]
        return self._enter(self._lane("static answer, list", command, port, work.LIST))

    def fastmcp(self) -> Lane:
        port = free_port()
        command: list[str | Path] = [rival_python(), _HERE / "fastmcp_server.py", str(port), self.url]
        return self._enter(self._lane("FastMCP, call", command, port, work.LEGACY_CALL))

    def gateway(self) -> tuple[Lane, Lane]:
        """The gateway with its calls and its lists as two lanes of one process."""
        calls = self._enter(self._gateway("gateway, call", 20, work.MODERN_CALL))
        return calls, Lane("gateway, list", calls.process, calls.port, work.LIST)

    def cold_gateway(self, tools: int) -> Lane:
        """A gateway of that many tools that has not been started yet."""
        return self._gateway(f"gateway, {tools} tools", tools, work.listing(tools))

    def _gateway(self, name: str, tools: int, workload: work.Workload) -> Lane:
        port, admin_port = free_port(), free_port()
        listing, config = self._folder / f"openrpc-{port}.json", self._folder / f"gateway-{port}.yaml"
        listing.write_text(json.dumps(work.openrpc(tools)))
        settings = {
            "server": {"port": port, "admin_port": admin_port},
            "backend": {"url": self.url, "listing": {"dialect": "static", "file": str(listing)}},
            "auth": {"mode": "off"},
            # one address asks for everything here
            "limits": {"discovery": "100000000/minute", "invocation": "100000000/minute", "concurrent": 10_000},
            "telemetry": {"log": {"level": "warning"}},
        }
        # JSON is YAML
        config.write_text(json.dumps(settings, indent=1))
        return self._lane(name, [sys.executable, "-m", "gateway", "serve", "--config", config], port, workload)
