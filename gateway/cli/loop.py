"""Run the asynchronous part of a command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run on uvloop where it is installed. Windows' usual loop has no ``add_reader``, which accepts connections."""
    make_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.SelectorEventLoop
    with suppress(ImportError):
        # At the top, this would fail on Windows, where there is no uvloop.
        import uvloop  # noqa: PLC0415

        make_loop = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(work)
