"""Debian's nginx as people put it in front of the gateway.

async with Nginx([gateway.port]) as nginx:
    await exchange(nginx.port, ...)
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from tests.waiting import PATIENCE

_CONFIG: Final = """
daemon off;
user {user};
worker_processes 1;
pid {folder}/pid;
error_log {folder}/error.log notice;
events {{ worker_connections 256; }}
http {{
  access_log off;
  {outside}
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream gateway {{ {servers} keepalive 8; }}
  server {{
    listen 127.0.0.1:{port};
    client_max_body_size 8m;
    proxy_http_version 1.1;
    proxy_bind 127.0.0.1;
    proxy_pass_header X-Accel-Buffering;  # heeded all the same, and checked by our clients
    proxy_set_header Connection "";
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    {directives}
    location / {{ proxy_pass http://gateway; }}
  }}
}}
"""


class Nginx:
    """An nginx before the gateways at ``upstream`` (ports of loopback), which take turns, also after a failure: by
    default, nginx leaves out for ten seconds who failed once. ``directives`` are of its server, and those that are
    ``outside`` of all servers. What it holds is gone at the end."""

    def __init__(self, upstream: Sequence[int], directives: str = "", outside: str = "") -> None:
        self._upstream = upstream
        self._directives = directives
        self._outside = outside
        self._folder = tempfile.TemporaryDirectory(prefix="nginx-")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    async def __aenter__(self) -> Self:
        folder = Path(self._folder.name)
        config = self._write()
        program = shutil.which("nginx", path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"]))
        assert program, "nginx is missing: run tests/install.sh, or install the Debian package nginx-light"
        # nginx takes over a socket that is open already (its way to replace a running one), so that nobody has to wait
        # until it listens.
        number = self._listener.fileno()
        self._process = await asyncio.create_subprocess_exec(
            *(program, "-e", str(folder / "error.log"), "-p", str(folder), "-c", str(config)),
            env={"NGINX": f"{number};"},
            pass_fds=[number],
            stdin=asyncio.subprocess.DEVNULL,
        )
        self._listener.close()
        return self

    def route(self, upstream: Sequence[int]) -> None:
        """Go on with these gateways, once nginx has read it: requests under way end where they are."""
        self._upstream = upstream
        self._write()
        self._process.send_signal(signal.SIGHUP)

    def _write(self) -> Path:
        folder = Path(self._folder.name)
        servers = " ".join(f"server 127.0.0.1:{port} max_fails=0;" for port in self._upstream)
        config = folder / "nginx.conf"
        config.write_text(
            _CONFIG.format(
                folder=folder,
                user=_user(),
                servers=servers,
                port=self.port,
                directives=self._directives,
                outside=self._outside,
            )
        )
        return config

    async def __aexit__(self, *_: object) -> None:
        log = (Path(self._folder.name) / "error.log").read_text()
        ended = self._process.returncode
        if ended is None:
            self._process.terminate()
        async with asyncio.timeout(PATIENCE):
            await self._process.wait()
        self._folder.cleanup()
        assert ended is None, f"nginx ended by itself with {ended}:\n{log}"
        assert "[emerg]" not in log, log
        assert "[crit]" not in log, log


def _user() -> str:
    """Who runs this: a worker of root's would be nobody, who may not enter the folder."""
    return pwd.getpwuid(os.getuid()).pw_name


def connections_to(port: int) -> set[str]:
    """The clients' ends of the connections to a port of loopback, those that are over within the last minute too."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    here = f"0100007F:{port:04X}"
    return {remote for _, local, remote, *_ in lines if local == here and remote != "00000000:0000"} | {
        local for _, local, remote, *_ in lines if remote == here
    }
