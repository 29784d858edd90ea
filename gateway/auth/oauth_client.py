"""Post forms to an endpoint of an authorization server, with the gateway as the client (RFC 6749 §2.3.1)."""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from gateway import jsonrpc
from gateway.auth.jwks import HEADERS
from gateway.http_client.session import Outbound
from gateway.settings.auth import ClientSecret

MAX_BYTES: Final = 64 * 1024
"""The longest answer that is read."""
_HEADERS: Final = {"Content-Type": "application/x-www-form-urlencoded", **HEADERS}


class OAuthClient:
    """Post forms to one endpoint. ``endpoint`` returns its URL, ``timeout`` is in seconds."""

    def __init__(
        self, outbound: Outbound, client: ClientSecret, endpoint: Callable[[], Awaitable[str]], timeout: float
    ) -> None:
        self._outbound = outbound
        self._endpoint = endpoint
        self._timeout = timeout
        self._headers = {**_HEADERS, **_basic_authorization(client)}

    async def post(self, form: Mapping[str, str]) -> tuple[int, dict[str, Any] | None]:
        """Return status and members of the answer, None without an object. Raises :class:`OutboundError`."""
        url, body = await self._endpoint(), urlencode(form).encode()
        answer = await self._outbound.request(
            "POST", url, body, self._headers, timeout=self._timeout, max_bytes=MAX_BYTES
        )
        try:
            members = jsonrpc.decode(answer.body)
        except ValueError:
            members = None
        return answer.status, members if isinstance(members, dict) else None


def _basic_authorization(client: ClientSecret) -> dict[str, str]:
    """Return the header of client_secret_basic (RFC 6749 §2.3.1): form-encoded, then base64; none without client_id."""
    if client.client_id is None:
        return {}
    secret = client.client_secret.get_secret_value() if client.client_secret else ""
    pair = f"{quote_plus(client.client_id)}:{quote_plus(secret)}"
    return {"Authorization": "Basic " + b64encode(pair.encode()).decode()}
