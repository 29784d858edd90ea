"""Handle signals that stop the gateway or make it reload, from the main thread, and notify systemd.

``signal.signal`` works on every system; asyncio's ``add_signal_handler`` is missing on Windows, as is SIGHUP.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final

_STOP: Final = ("SIGTERM", "SIGINT", "SIGBREAK")


def stop_on_signal(before_end: Callable[[], None] = lambda: None) -> asyncio.Event:
    """Return what the first SIGTERM, SIGINT or (Windows) SIGBREAK sets. A second one calls ``before_end`` and ends the
    process at once, even if the loop is blocked, with exit code 128 plus the signal's number, as in shells."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def request_stop(*_: object) -> None:
        for number in _signal_numbers(_STOP):
            signal.signal(number, end)
        loop.call_soon_threadsafe(stop.set)

    def end(number: int, _: FrameType | None) -> None:
        before_end()
        os._exit(128 + number)  # not sys.exit, which would wait for the tasks and threads that hang

    for number in _signal_numbers(_STOP):
        signal.signal(number, request_stop)
    return stop


def call_on_hangup(act: Callable[[], None]) -> None:
    """Call ``act`` in the running loop at each SIGHUP, on systems that have it."""
    loop = asyncio.get_running_loop()
    for number in _signal_numbers(("SIGHUP",)):
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(act))


def notify(*states: str) -> None:
    """Tell systemd a state, such as ``READY=1``, where it waits for that (``Type=notify``, sd_notify(3))."""
    if address := os.environ.get("NOTIFY_SOCKET"):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
            notices.setblocking(False)
            notices.sendto("\n".join(states).encode(), address.replace("@", "\0", 1) if address[0] == "@" else address)


def _signal_numbers(names: tuple[str, ...]) -> list[int]:
    return [getattr(signal, name) for name in names if hasattr(signal, name)]
