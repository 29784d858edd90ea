"""Start what the cases are about: real services, and nginx in front of them in every state that a first try meets."""

from __future__ import annotations

import json
import re
import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from tests.redis_server import RedisServer
from tests.services import launch
from tests.services.process import Service, free_port, require_program
from tests.tls import Authority

METHODS: Final = """\
methods:
  seats.free:
    description: Count the free seats.
    parms:
      rows: {schema: {type: array}, required: yes please}
"""
_LOGIN: Final = "<html><title>Sign in</title><form><input name=u><input name=p type=password></form></html>"
_BUSY: Final = 600
_NGINX: Final = """\
daemon off; master_process off; pid @DIR@/nginx.pid; error_log @DIR@/nginx.log;
events {}
http {
  access_log off; default_type text/html; @TEMPORARY@
  server { listen @OTHER_PORT@; return 404; }
  server { listen @PAGE_PORT@; root @DIR@/www; }
  server { listen @LOGIN_PORT@; location / { return 200 '@LOGIN@'; } }
  server {
    listen @TLS_PORT@ ssl; ssl_certificate @TLS_PEM@; ssl_certificate_key @TLS_PEM@;
    location / { proxy_pass @SERVICE@; }
  }
  server {
    listen @NAMED_PORT@ ssl; ssl_certificate @NAMED_PEM@; ssl_certificate_key @NAMED_PEM@;
    location / { proxy_pass @SERVICE@; }
  }
  server {
    listen @EXPIRED_PORT@ ssl; ssl_certificate @EXPIRED_PEM@; ssl_certificate_key @EXPIRED_PEM@;
    location / { proxy_pass @SERVICE@; }
  }
  server {
    listen @CLIENTS_PORT@ ssl; ssl_certificate @CLIENTS_PEM@; ssl_certificate_key @CLIENTS_PEM@;
    ssl_verify_client on; ssl_client_certificate @DIR@/ca.pem;
    location / { proxy_pass @SERVICE@; }
  }
  server {
    listen @PORT@;
    location / { return 404; }
    location = /jsonrpc { proxy_pass @SERVICE@; }
    location = /moved { return 308 /jsonrpc; }
    location = /portal { return 302 /login?next=/portal; }
    location /maintenance/ { add_header Retry-After @BUSY@ always; return 503; }
    location /failing/ { return 500; }
    location /away/ { proxy_pass http://@CLOSED_PORT@; }
    location /private/ { auth_basic private; auth_basic_user_file @DIR@/passwords; proxy_pass @SERVICE@; }
    location /blocked/ { deny all; }
    location /.well-known/oauth-authorization-server/realms/demo {
      default_type application/json; return 200 '{"issuer":"@ISSUER@","jwks_uri":"@ISSUER@/keys"}';
    }
    location = /realms/demo/keys { default_type application/json; alias @DIR@/keys.json; }
  }
}
"""
# Of the standard library; and PyPI jsonrpclib-pelix without its introspection.
_XML_RPC: Final = """\
import sys
from xmlrpc.server import SimpleXMLRPCServer

server = SimpleXMLRPCServer(("127.0.0.1", int(sys.argv[1])), logRequests=False)
server.register_introspection_functions()
server.serve_forever()
"""
_SILENT: Final = """\
import sys
from jsonrpclib.SimpleJSONRPCServer import SimpleJSONRPCServer

server = SimpleJSONRPCServer(("127.0.0.1", int(sys.argv[1])), logRequests=False)
server.register_function(len, "count")
server.serve_forever()
"""


@dataclass(frozen=True)
class Places:
    """Hold where everything is. ``directory`` has the files."""

    directory: Path
    ports: dict[str, int]
    urls: dict[str, str]

    def names(self) -> dict[str, str]:
        """Return what stands for them in a row: <service> is a service's URL, <nginx> a server's host and port."""
        hosts = {f"<{name}>": f"127.0.0.1:{port}" for name, port in self.ports.items()}
        urls = {f"<{name}>": url for name, url in self.urls.items()}
        return {**hosts, **urls, "<taken:port>": str(self.ports["taken"]), "<dir>": str(self.directory)}


@contextmanager
def started(directory: Path) -> Iterator[Places]:
    """Start everything once, for all cases."""
    with ExitStack() as stack:
        services = {
            "service": launch.openrpc_app(),
            "frozen": launch.openrpc_app(),
            "silent": _python(_SILENT, "/"),
            "xml": _python(_XML_RPC, "/RPC2"),
            "deluge": launch.deluge(),
            "drupal": launch.drupal(anonymous=True, discovery=False),
            "both": launch.drupal(mcp=True),
        }
        with ThreadPoolExecutor() as pool:
            for one in pool.map(Service.start, services.values()):
                stack.callback(one.close)
        closed, taken = stack.enter_context(socket.socket()), stack.enter_context(socket.socket())
        for one in (closed, taken):
            one.bind(("127.0.0.1", 0))
        taken.listen()
        ports = {name: free_port() for name in ("other", "page", "login", "tls", "expired", "named", "clients")}
        ports["redis"] = stack.enter_context(RedisServer(password="s3cret")).port
        ports |= {"closed": closed.getsockname()[1], "taken": taken.getsockname()[1]}
        ports["nginx"] = stack.enter_context(_nginx(directory, ports, services["service"])).port
        ports |= {name: one.port for name, one in services.items()}
        _write_tokens(directory, f"http://127.0.0.1:{ports['nginx']}/realms/demo")
        (directory / "methods.yaml").write_text(METHODS)
        (directory / "secret").write_text("0123456789abcdef0123456789abcdef")
        (directory / "secret").chmod(0o600)
        (directory / "twice.yaml").write_text("backend:\n  url: http://127.0.0.1/\n  url: http://127.0.0.2/\n")
        services["frozen"].freeze()
        stack.callback(services["frozen"].thaw)
        yield Places(directory, ports, {name: one.url for name, one in services.items()})


def _python(program: str, path: str) -> Service:
    return Service("python", lambda port: [sys.executable, "-c", program, str(port)], path)


def _nginx(directory: Path, ports: dict[str, int], service: Service) -> Service:
    program = require_program("nginx", "nginx-light")
    authority = Authority(directory)
    pems = {name: authority.server_pem("127.0.0.1") for name in ("tls", "clients")}
    pems["named"] = authority.server_pem("elsewhere.example.com")
    pems["expired"] = authority.server_pem("127.0.0.1", expired=True)
    (directory / "www").mkdir()
    (directory / "www" / "index.html").write_text("<html><title>Welcome</title></html>")
    (directory / "passwords").write_text("gateway:{PLAIN}right\n")
    temporary = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    names = {"DIR": str(directory), "SERVICE": service.url, "LOGIN": _LOGIN, "BUSY": str(_BUSY)}
    names |= {f"{name.upper()}_PORT": f"127.0.0.1:{port}" for name, port in ports.items()}
    names |= {f"{name.upper()}_PEM": str(pem) for name, pem in pems.items()}
    names |= {"TEMPORARY": " ".join(f"{name}_temp_path {directory}/{name};" for name in temporary)}

    def command(port: int) -> list[str]:
        issuer = f"http://127.0.0.1:{port}/realms/demo"
        own = {"PORT": f"127.0.0.1:{port}", "ISSUER": issuer}
        text = re.sub("@([A-Z_]+)@", lambda match: (names | own)[match[1]], _NGINX)
        (directory / "nginx.conf").write_text(text)
        return [program, "-p", str(directory), "-c", str(directory / "nginx.conf"), "-e", str(directory / "nginx.log")]

    return Service("nginx", command, "/jsonrpc")


def _write_tokens(directory: Path, issuer: str) -> None:
    """Write the issuer's keys, and a token of each kind in a file of its own."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    keys = {"keys": [public | {"kid": "1", "alg": "ES256", "use": "sig"}]}
    (directory / "keys.json").write_bytes(json.dumps(keys).encode())
    now = int(time.time())
    right: dict[str, Any] = {
        "iss": issuer, "sub": "ada", "aud": "http://127.0.0.1:8080/mcp", "client_id": "cli", "azp": "cli", "jti": "1",
        "iat": now, "exp": now + 300, "scope": "books:read",
    }  # fmt: skip
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "keycloak": ("JWT", right | {"typ": "Bearer"}),
        "stranger": ("JWT", right),
        "audience": ("at+jwt", right | {"aud": "https://other.example.com"}),
        "over": ("at+jwt", right | {"iat": 1_600_000_000, "exp": 1_600_000_300}),
    }
    for name, (typ, claims) in kinds.items():
        token = jwt.encode(claims, key, "ES256", headers={"typ": typ, "kid": "1"})
        (directory / f"{name}.jwt").write_text(token)
    (directory / "header").write_text(f"Bearer {token}\n")
