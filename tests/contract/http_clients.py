"""The transports that one suite tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.http_client.choice import HttpClient
from gateway.http_client.lean import LeanTransport
from gateway.http_client.session import Outbound

Make = Callable[[], HttpClient]
HTTP_CLIENTS: Final[dict[str, Make]] = {"Outbound": Outbound, "LeanTransport": LeanTransport}
CALL: Final = b'{"jsonrpc":"2.0","id":"7","method":"add","params":{"a":2,"b":3}}'
