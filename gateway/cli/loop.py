"""Run the asynchronous part of a command."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run on uvloop where it is installed."""
    try:
        import uvloop  # noqa: PLC0415, absent on Windows
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
