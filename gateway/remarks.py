"""What an operator should know of a configuration that works: said in the log at start, and by ``check``."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from gateway.settings import Settings, is_loopback


def remarks_on(settings: Settings) -> Iterator[str]:
    """A sentence for each, which begins with the knob."""
    url = settings.server.public_url
    if url is not None and not is_loopback(urlsplit(url).hostname or "") and not settings.server.trusted_proxies:
        yield (
            "server.trusted_proxies is empty, and public_url is no address of this machine: to limits and logs, all "
            "callers behind a proxy have the proxy's address; name the networks that proxies connect from"
        )
    file = settings.server.secret_file
    if file is not None and _others_may_read(file):
        yield (
            f"server.secret_file: every user of this machine may read {file}, and who reads it can forge cursors and "
            "sessions: chmod o-r, or in Kubernetes defaultMode: 0440 where the Secret is mounted"
        )


def _others_may_read(file: str) -> bool:
    """Tell whether users may who are neither the owner nor of the group, which Kubernetes gives a mounted Secret to.
    Modes are no answer on Windows."""
    try:
        return os.name == "posix" and bool(Path(file).stat().st_mode & stat.S_IROTH)
    except OSError:
        return False  # whoever reads it says so
