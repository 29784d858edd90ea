"""Run what may wait for ever, a look-up or a read of a file, in threads that hold nothing up."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Returned = TypeVar("_Returned")


async def run_apart(
    name: str, function: Callable[_Parameters, _Returned], *args: _Parameters.args, **kwargs: _Parameters.kwargs
) -> _Returned:
    """Return what ``function`` returns in a new thread of this name, or raise what it raises. A cancellation ends the
    wait, not the thread. The end of the process waits for no such thread, unlike for one of :func:`asyncio.to_thread`:
    a name server, a pipe without a writer and a file system of the network may never answer."""
    outcome: Future[_Returned] = Future()
    outcome.set_running_or_notify_cancel()  # work under way cannot be cancelled
    work = partial(copy_context().run, partial(function, *args, **kwargs))

    def run() -> None:
        try:
            outcome.set_result(work())
        except Exception as error:  # noqa: BLE001, raised where it is awaited
            outcome.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await asyncio.wrap_future(outcome)


async def read_apart(
    function: Callable[_Parameters, _Returned], *args: _Parameters.args, **kwargs: _Parameters.kwargs
) -> _Returned:
    """Return what ``function`` returns, which reads files of the operator, see :func:`run_apart`."""
    return await run_apart("files", function, *args, **kwargs)
