"""Let the process open as many files and sockets as the system allows, and find how many are left for connections."""

from __future__ import annotations

from pathlib import Path
from typing import Final

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_WINDOWS: Final = 512
"""Sockets that ``select`` takes there. There is no other loop with ``add_reader``."""
_OPEN: Final = (Path("/proc/self/fd"), Path("/dev/fd"))


def raise_limit() -> int | None:
    """Raise the soft limit of open files to the hard one. Return what it is then, None where there is none."""
    if resource is None:
        return _WINDOWS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):
            pass  # macOS says that the hard limit is infinite, and takes less
    return None if soft == resource.RLIM_INFINITY else soft


def connections_that_fit(limit: int, reserved: int) -> int:
    """Return how many connections a ``limit`` of open files leaves room for, beside the files that are open now and
    ``reserved`` ones. Where the limit is so low that this is little, it is half of what is not open yet."""
    left = limit - _count_open()
    return max(left - reserved, left // 2, 1)


def _count_open() -> int:
    folder = next((folder for folder in _OPEN if folder.is_dir()), None)
    return sum(1 for _ in folder.iterdir()) if folder else 0
