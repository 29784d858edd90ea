"""The service behind everybody: nginx with constant answers of three sizes, one that takes 20 ms, and the documents of
an issuer whose tokens this process signs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Final

from lab.bench.machine import Process, free_port, nginx_echo_module, program
from lab.bench.work import RESULT, orders
from tests.authorization import forge
from tests.authorization.keys import ec_key

LARGE: Final = orders(580)
HUGE: Final = orders(5800)
RESULTS: Final = {"jsonrpc": RESULT, "slow": RESULT, "large": LARGE, "huge": HUGE}
"""What each path answers: 1 kB, the same after 20 ms, 100 kB, 1 MB."""
_DELAY: Final = 0.020
_PIECE: Final = 3500
_LIFETIME: Final = 4 * 3600

# The id of an answer has to be the id of its request. echo_read_request_body makes $request_body known before
# the answer is put together; it costs nginx nothing that shows.
_CONFIG = """
load_module {module};
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  client_body_buffer_size 64k;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  map $request_body $rpc_id {{ default null; '~"id":\\s*(?<found>"[^"]*"|\\d+)' $found; }}
  server {{
    listen 127.0.0.1:{port};
    default_type application/json;
    location = /.well-known/oauth-authorization-server {{ return 200 '{metadata}'; }}
    location = /keys {{ return 200 '{keys}'; }}
{paths}
  }}
}}
"""
_PATH = """
    location = /{path} {{ echo_read_request_body; {pause}echo_exec @{path}; }}
    location @{path} {{
      {pieces}
      return 200 '{{"jsonrpc":"2.0","id":$rpc_id,"result":{names}}}';
    }}
"""
_PROXY = """
daemon off;
master_process off;
pid {folder}/proxy-nginx.pid;
error_log stderr error;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream service {{ server 127.0.0.1:{backend}; keepalive 512; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://service;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
    }}
  }}
}}
"""


def _path(path: str, result: Any) -> str:
    """nginx takes no word of more than 4 kB, so that a long answer is put together of variables."""
    text = json.dumps(result, separators=(",", ":"))
    pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
    named = [(f"${path}{number}", piece) for number, piece in enumerate(pieces)]
    return _PATH.format(
        path=path,
        pause=f"echo_sleep {_DELAY}; " if path == "slow" else "",
        pieces="".join(f"set {name} '{piece}';\n" for name, piece in named),
        names="".join(f"${{{name[1:]}}}" for name, _ in named),
    )


def _nginx(config: Path, text: str, core: int) -> Process:
    config.write_text(text)
    command: list[str | Path] = [program("nginx"), "-e", "stderr", "-p", config.parent, "-c", config]
    return Process(command, core, config.with_suffix(".log"))


class Backend:
    """The service on ``core``, not started yet; its files go to ``folder``."""

    def __init__(self, folder: Path, core: int) -> None:
        self.port = free_port()
        self.issuer = f"http://127.0.0.1:{self.port}"
        self._key = ec_key("bench")
        metadata = {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys", "response_types_supported": ["code"]}
        text = _CONFIG.format(
            module=nginx_echo_module(),
            folder=folder,
            port=self.port,
            metadata=json.dumps(metadata),
            keys=json.dumps({"keys": [self._key.jwk]}),
            paths="".join(_path(path, result) for path, result in RESULTS.items()),
        )
        self.process = _nginx(folder / "service.conf", text, core)

    def url(self, path: str = "jsonrpc") -> str:
        return f"{self.issuer}/{path}"

    def token(self, resource: str, subject: str = "ann") -> str:
        """An access token for the resource, as RFC 9068 describes one."""
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": subject,
            "aud": resource,
            "exp": now + _LIFETIME,
            "iat": now,
            "jti": f"{subject}-{now}",
            "client_id": "bench",
        }
        header = {"typ": "at+jwt", "alg": self._key.alg, "kid": self._key.kid}
        return forge.compact(header, claims, self._key)


def plain_proxy(folder: Path, port: int, backend: Backend, core: int) -> Process:
    """nginx as a reverse proxy that does nothing else."""
    return _nginx(folder / "proxy.conf", _PROXY.format(folder=folder, port=port, backend=backend.port), core)
