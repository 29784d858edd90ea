"""The command ``healthcheck``, for images: an exit code, quickly. So it imports nothing but what asks one question."""

import http.client
import os
from contextlib import closing
from typing import Final
from urllib.parse import urlsplit

import click

DEFAULT_PORT: Final = 9090
_EVERYWHERE: Final = ("", "0.0.0.0", "::")  # noqa: S104, not bound to
_TIMEOUT: Final = 2.0


class NoAdminPort(Exception):
    """Raised where nothing answers like an admin port. Its text names the address and the remedy."""


def admin_url(host: str = "", port: int | str | None = None) -> str:
    """Return the admin port's address on this machine: of these values, else the environment, else the default."""
    host = host or os.environ.get("GATEWAY__SERVER__ADMIN_HOST", "")
    host = "127.0.0.1" if host in _EVERYWHERE else host
    port = port or os.environ.get("GATEWAY__SERVER__ADMIN_PORT") or DEFAULT_PORT
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def ask(url: str, path: str, timeout: float = _TIMEOUT) -> tuple[int, bytes]:
    """Return status and body of ``GET path``, without any proxy. Raise :class:`NoAdminPort` where nothing answers, or
    not under this host."""
    parts = urlsplit(url if "//" in url else f"http://{url}")
    try:
        # Closed here: a KeyboardInterrupt that falls into a finalizer is lost.
        with closing(
            http.client.HTTPConnection(parts.hostname or "", parts.port or DEFAULT_PORT, timeout=timeout)
        ) as connection:
            connection.request("GET", path)
            with closing(connection.getresponse()) as response:
                status, body = response.status, response.read()
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise NoAdminPort(
            f"{url} does not answer: {reason}. Is a gateway running there? Name its admin port (server.admin_port), as "
            f"in {admin_url()}"
        ) from None
    if status == 421:
        raise NoAdminPort(f"{url}: {body.decode(errors='replace').strip()}. Or name its address, as in {admin_url()}")
    return status, body


@click.command()
@click.option(
    "--url", metavar="URL", help="Address of the admin port. Absent: loopback, and the port of the environment."
)
@click.option("--ready", is_flag=True, help="Ask whether it can serve (/readyz), not only whether it lives (/livez).")
def healthcheck(url: str | None, ready: bool) -> None:
    """Exit with 0 where the gateway of this machine lives, else with 1."""
    try:
        status, body = ask(url or admin_url(), "/readyz" if ready else "/livez")
    except NoAdminPort as error:
        click.echo(str(error), err=True)
        raise SystemExit(1) from None
    if status != 200:
        click.echo(body.decode(errors="replace").strip() or f"HTTP {status}", err=True)
        raise SystemExit(1)
