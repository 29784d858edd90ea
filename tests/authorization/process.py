"""A real authorization server as a process on loopback, behind a door (``node/door.mjs``) that counts and disturbs."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Self
from urllib.parse import urlencode

import aiohttp

from tests.authorization.answers import Answer, Disturbance, answer_of
from tests.services.process import Service, ServiceMissing, free_port, require_node
from tests.tls import Authority
from tests.waiting import PATIENCE

NODE_PROJECT: Final = Path(__file__).parent / "node"
TIMEOUT: Final = aiohttp.ClientTimeout(total=PATIENCE)
_SHOWN_OUTPUT: Final = 2000


class Refused(Exception):
    """The server said no: ``status``, and ``error`` as OAuth names it, where it did."""

    def __init__(self, status: int, text: str, output: str) -> None:
        super().__init__(f"{status} {text}\nThe server printed:\n{output[-_SHOWN_OUTPUT:] or '(nothing)'}")
        self.status = status
        try:
            body = json.loads(text)
        except ValueError:
            body = {}
        self.error: str | None = body.get("error")
        self.description: str | None = body.get("error_description")


class AuthorizationServer(Service):
    """What both have: a door (``node/door.mjs``) that counts requests and can be disturbed, and keys in generations.

    With ``authority`` it speaks https, and shows a certificate by that one.
    """

    paths: ClassVar[Mapping[str, str]] = {}
    """Path of each document that has a short name; everywhere a path itself is as good."""

    def __init__(
        self, name: str, package: str, program: str, options: Mapping[str, Any], authority: Authority | None = None
    ) -> None:
        require_package(package)
        node = require_node()
        pem = {} if authority is None else {"pem": str(authority.server_pem())}
        self._options = {**options, **pem}
        self._trust = True if authority is None else ssl.create_default_context(cafile=authority.file)
        self._control = 0
        self._generations = [1]
        scheme = "http" if authority is None else "https"
        super().__init__(name, lambda port: [node, str(NODE_PROJECT / program), self._arguments(port)], scheme=scheme)

    @property
    def issuer(self) -> str:
        return self.base

    @property
    def jwks_uri(self) -> str:
        return self.base + self.paths["jwks"]

    async def metadata(self) -> dict[str, Any]:
        document: dict[str, Any] = await self._json("GET", self.base + self.paths["metadata"])
        return document

    async def jwks(self) -> dict[str, Any]:
        document: dict[str, Any] = await self._json("GET", self.jwks_uri)
        return document

    # The door

    async def fetches(self, document: str | None = None) -> int:
        """How many requests came since the start or :meth:`forget`, for one document or at all."""
        counts: dict[str, int] = await self._order("GET", "/fetches")
        return sum(counts.values()) if document is None else counts.get(self._at(document), 0)

    async def forget(self) -> None:
        await self._order("DELETE", "/fetches")

    async def disturb(self, document: str, how: Disturbance) -> None:
        """From now on, and until :meth:`restore`, see :mod:`tests.authorization.answers`."""
        path = self._at(document)
        if how in ("hold", "reset"):
            answer: dict[str, Any] = {str(how): True}
        elif isinstance(how, Answer):
            answer = how.to_json()
        else:
            genuine = await self._text("GET", f"{self._door_url}/genuine{path}")
            answer = answer_of(how, genuine.encode(), path).to_json()
        await self._order("PUT", "/disturbances", {path: answer})

    async def restore(self) -> None:
        """Ends all disturbances; requests that were held get the genuine document."""
        await self._order("DELETE", "/disturbances")

    async def held(self, document: str) -> None:
        """Return once a request for the document is held. Raise :class:`TimeoutError`."""
        await self._order("GET", f"/held?{urlencode({'path': self._at(document)})}")

    # Keys

    async def publish(self, *generations: int) -> None:
        """Publishes the keys of these generations (kid ``RS256-1``, ``ES256-1``, ...) and signs with the first."""
        self._generations = list(generations)
        await self._order("PUT", "/keys", self._generations)

    async def rotate(self) -> None:
        """The next generation signs and is published beside the ones before."""
        await self.publish(max(self._generations) + 1, *self._generations)

    async def retire(self) -> None:
        """Only the generation that signs stays published."""
        await self.publish(self._generations[0])

    async def reset(self) -> None:
        """Bring back the first keys, without disturbances and counts. What was issued stays valid."""
        await self.restore()
        if self._generations != [1]:
            await self.publish(1)
        await self.forget()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def _arguments(self, port: int) -> str:
        self._control = free_port()
        self._generations = [1]
        return json.dumps({"port": port, "controlPort": self._control, "parent": os.getpid(), **self._options})

    @property
    def _door_url(self) -> str:
        return f"http://127.0.0.1:{self._control}"

    def _at(self, document: str) -> str:
        return document if document.startswith("/") else self.paths[document]

    async def _order(self, method: str, path: str, body: Any = None) -> Any:
        return await self._json(method, self._door_url + path, json=body)

    async def _json(self, method: str, url: str, **options: Any) -> Any:
        text = await self._text(method, url, **options)
        return json.loads(text) if text else None

    async def _text(self, method: str, url: str, **options: Any) -> str:
        """Return the body. Raise :class:`Refused` for anything but success."""
        async with (
            aiohttp.ClientSession(timeout=TIMEOUT) as session,
            session.request(method, url, allow_redirects=False, ssl=self._trust, **options) as response,
        ):
            text = await response.text()
            if not response.ok:
                raise Refused(response.status, text, self.output)
            return text


def require_package(name: str) -> None:
    if not (NODE_PROJECT / "node_modules" / name / "package.json").exists():
        raise ServiceMissing(f"npm package {name} is missing: run tests/install.sh with the venv's python")
