"""The table: which client, in which of its modes, and what of it does not exist in that client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.clients.environments import DRIVERS, REQUIREMENTS, main_python, node, own_python
from tests.front import LEGACY, MODERN

CAPABILITIES: Final = ("list", "call", "page", "change", "cancel", "killed", "ask", "stdio")

_FASTMCP: Final = DRIVERS / "fastmcp_client.py"
_ONE_REQUEST: Final = "its command line asks once and ends"
_AS_AUTO: Final = {"stdio": "as in the mode auto"}
_NO_STDIO: Final = dict.fromkeys(("change", "cancel", "ask", "stdio"), _ONE_REQUEST)
_NO_SUBSCRIPTION: Final = "this client opens no subscription in 2026-07-28"


@dataclass(frozen=True)
class Row:
    """A client in one of its modes. ``era`` is the client's word for it, ``revision`` what it must come to speak.

    ``stdio`` are the scenarios that also run over standard input and output.
    ``without`` has the capabilities that the client lacks, each with the reason. ``interpreter`` gives the program
    that runs the driver, and installs what it needs first.
    """

    client: str
    era: str
    revision: str
    driver: Path
    interpreter: Callable[[], str]
    without: Mapping[str, str] = field(default_factory=dict)
    stdio: tuple[str, ...] = ("change", "cancel")

    @property
    def modern(self) -> bool:
        """Whether closing a request cancels it; in the older eras a notification does."""
        return self.revision == MODERN

    @property
    def name(self) -> str:
        return f"{self.client} {self.era}".rstrip()

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The columns of its table."""
        return CAPABILITIES

    def command(self) -> tuple[str, ...]:
        """The driver's command line. Raises :class:`~tests.clients.environments.ClientMissing`."""
        return self.interpreter(), str(self.driver), self.era


def _mcp1() -> str:
    return own_python(REQUIREMENTS / "mcp1.txt")


def _fastmcp() -> str:
    return own_python(REQUIREMENTS / "fastmcp.txt")


ROWS: Final = (
    Row("mcp 2.3", "auto", MODERN, DRIVERS / "mcp2.py", main_python),
    Row("mcp 2.3", "legacy", LEGACY, DRIVERS / "mcp2.py", main_python),
    Row("mcp 2.3", "2026-07-28", MODERN, DRIVERS / "mcp2.py", main_python, _AS_AUTO),
    # Its driver reads the id of the call to cancel from the HTTP request.
    Row("mcp 1.30", "legacy", LEGACY, DRIVERS / "mcp1.py", _mcp1, stdio=("change",)),
    Row(
        "fastmcp 4.1", "auto", MODERN, _FASTMCP, _fastmcp, {"change": _NO_SUBSCRIPTION},
        stdio=("call", "cancel"),
    ),
    Row("fastmcp 4.1", "legacy", LEGACY, _FASTMCP, _fastmcp, stdio=("change",)),
    Row("fastmcp 4.1", "2026-07-28", MODERN, _FASTMCP, _fastmcp, {"change": _NO_SUBSCRIPTION, **_AS_AUTO}),
    Row("npm sdk 1.32", "legacy", LEGACY, DRIVERS / "sdk.mjs", node),
    Row("npm client 2.4", "legacy", LEGACY, DRIVERS / "client.mjs", node),
    Row("npm client 2.4", "auto", MODERN, DRIVERS / "client.mjs", node),
    Row("npm client 2.4", "2026-07-28", MODERN, DRIVERS / "client.mjs", node, _AS_AUTO),
    Row("npm inspector 2.12", "legacy", LEGACY, DRIVERS / "inspector.mjs", node, _NO_STDIO),
    Row("npm inspector 2.12", "modern", MODERN, DRIVERS / "inspector.mjs", node, _NO_STDIO),
)  # fmt: skip
