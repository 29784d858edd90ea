"""ContextForge as a gateway in front of the service: it cannot speak JSON-RPC to a service, so that it posts the
arguments alone, and the service answers as always."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

from lab.bench import work
from lab.bench.load import Lane
from lab.bench.machine import Process, Unusable, free_port
from lab.bench.peers.environments import python
from tests import orders

_ADMIN: Final = "admin@example.com"
_SECRET: Final = "0123456789abcdef0123456789abcdef01"
_TOOL: Final = "order-find"
_MINUTES: Final = "10080"
_SETTINGS: Final = {
    "JWT_SECRET_KEY": _SECRET,
    "AUTH_ENCRYPTION_SECRET": _SECRET[::-1],
    "PLATFORM_ADMIN_EMAIL": _ADMIN,
    "PLATFORM_ADMIN_PASSWORD": "Bench.only.4217",
    "REQUIRE_USER_IN_DB": "false",
    "SSRF_ALLOW_LOCALHOST": "true",
    "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
    "MCPGATEWAY_UI_ENABLED": "false",
    "MCPGATEWAY_A2A_ENABLED": "false",
    "OBSERVABILITY_ENABLED": "false",
    "PLUGINS_ENABLED": "false",
    "DISABLE_ACCESS_LOG": "true",
    "LOG_LEVEL": "ERROR",
    "TOOL_RATE_LIMIT": "100000000",
    "RATE_LIMITING_ENABLED": "false",
    "JSON_RESPONSE_ENABLED": "true",
    "USE_STATEFUL_SESSIONS": "false",
}


class ContextForge:
    """One worker, with a database in ``folder``, not started yet."""

    def __init__(self, service: str, folder: Path, core: int) -> None:
        self.port = free_port()
        self._service = service
        self._python = python("contextforge")
        self._environ = _SETTINGS | {"DATABASE_URL": f"sqlite:///{folder}/contextforge.db"}
        command: list[str | Path] = [self._python.with_name("mcpgateway"), "mcpgateway.main:app"]
        command += ["--host", "127.0.0.1", "--port", str(self.port)]
        self.process = Process(command, core, folder / "contextforge.log", self._environ)
        self._token = ""

    def lane(self, name: str) -> Lane:
        """A call of its one tool. Call it after :meth:`register`."""
        legacy = work.LEGACY_CALL
        message = {**legacy.message, "params": {"name": _TOOL, "arguments": work.ARGUMENTS}}
        asked = work.Workload("/mcp/", message, legacy.headers, _is_the_result).of(self._token)
        return Lane(name, self.process, self.port, asked)

    def is_up(self) -> bool:
        """Whether it answers at all."""
        try:
            return self._ask("GET", "/health", None)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def register(self) -> None:
        """Tell it of the service. Raises :class:`Unusable`."""
        self._token = self._made_token()
        properties = {"customer": {"type": "string"}, "status": {"type": "string"}, "limit": {"type": "integer"}}
        tool = {
            "name": orders.TOOL,
            "url": self._service,
            "description": "Find the orders of a customer",
            "integration_type": "REST",
            "request_type": "POST",
            "input_schema": {"type": "object", "properties": properties},
        }
        status, answer = self._ask("POST", "/tools", {"tool": tool, "visibility": "public"})
        if status not in (200, 201):
            raise Unusable(f"ContextForge did not take the tool, status {status}: {answer[:500]!r}")

    def _made_token(self) -> str:
        module = "mcpgateway.utils.create_jwt_token"
        command: list[str | Path] = [self._python, "-m", module, "--username", _ADMIN, "--admin"]
        command += ["--exp", _MINUTES, "--secret", _SECRET]
        environ = os.environ | self._environ
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise Unusable(f"ContextForge made no token: {done.stderr[-500:]}")
        return done.stdout.split()[-1]

    def _ask(self, verb: str, path: str, body: Any) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
            connection.request(verb, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def _is_the_result(answer: Any) -> bool:
    """The service's whole answer as text: it has no envelope to take it out of."""
    outcome = answer["result"]
    return not outcome.get("isError") and json.loads(outcome["content"][0]["text"])["result"] == work.RESULT
