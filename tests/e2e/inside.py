"""A program that shows what it finds at its start, or ends in one of many ways: for tests of how programs are started.

python -m tests.e2e.inside state FILE
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import json
import locale
import logging
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
import uuid
import warnings
from pathlib import Path
from typing import Any, Final

RANDOM: Final = ("random", "uuid")


def _stream(stream: Any) -> Any:
    if stream is None:
        return None
    names = ("name", "mode", "encoding", "errors", "newlines", "line_buffering", "write_through", "closed")
    state = {name: getattr(stream, name) for name in names}
    return {**state, "terminal": stream.isatty(), "buffer": repr(stream.buffer), "number": stream.fileno()}


def _signals() -> dict[int, str]:
    return {number: str(signal.getsignal(number)) for number in sorted(signal.valid_signals())}


def _status() -> dict[str, str]:
    """What the kernel knows of the signals, the rights and the threads."""
    lines = (line.partition(":") for line in Path("/proc/self/status").read_text().splitlines())
    names = ("Umask", "Threads", "SigBlk", "SigIgn", "SigCgt", "SigPnd", "CapEff", "NoNewPrivs", "Cpus_allowed")
    found = {name: value.strip() for name, _, value in lines if name in names}
    # 32 and 33 are of libc alone, which a program can neither ask for nor set.
    return {**found, "SigIgn": hex(int(found["SigIgn"], 16) & ~(0b11 << 31))}


def _descriptors() -> dict[str, str]:
    """Return what is open, by number. That of the folder is closed again."""
    found = [*Path("/proc/self/fd").iterdir()]
    kinds = {one.name: str(one.readlink()).partition(":")[0] for one in found if one.is_symlink()}
    return dict(sorted(kinds.items()))


def _filters() -> list[str]:
    """Return how warnings are filtered, without what a library adds when it is imported."""
    return [str(one) for one in warnings.filters if one[2].__module__ == "builtins"]


def _state() -> dict[str, Any]:
    streams = sys.stdin, sys.stdout, sys.stderr
    return {
        "argv": sys.argv,
        "orig_argv": sys.orig_argv,
        "path": sys.path,
        "main": [sys.modules["__main__"].__spec__.name, __name__, sys.modules["__main__"].__dict__ is globals()],
        "flags": str(sys.flags),
        "warnings": [sys.warnoptions, _filters()],
        "streams": [_stream(stream) for stream in streams],
        "original": [sys.__stdin__ is streams[0], sys.__stdout__ is streams[1], sys.__stderr__ is streams[2]],
        "descriptors": _descriptors(),
        "signals": _signals(),
        "status": _status(),
        "environ": dict(os.environ),
        "folder": os.getcwd(),  # noqa: PTH109, as the system says it
        "group": [os.getpgid(0), os.getsid(0), os.nice(0), os.sched_getscheduler(0)],
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if "RLIMIT_" in name},
        "threads": [thread.name for thread in threading.enumerate()],
        "is_main": threading.current_thread() is threading.main_thread(),
        "gc": [gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.callbacks],
        "hooks": [str(sys.excepthook), str(sys.unraisablehook), str(sys.displayhook), str(threading.excepthook)],
        "limits_of_python": [sys.getrecursionlimit(), sys.getswitchinterval(), sys.gettrace(), sys.getprofile()],
        "logs": [str(logging.root.handlers), logging.root.level],
        "locale": [locale.setlocale(locale.LC_ALL), sys.getfilesystemencoding(), locale.getpreferredencoding(False)],
        "time": [time.tzname, time.timezone, time.strftime("%H", time.localtime(0))],
        "temporary": tempfile.tempdir,
        "policy": type(asyncio.get_event_loop_policy()).__name__ if sys.version_info < (3, 14) else "",
        "alarm": signal.getitimer(signal.ITIMER_REAL),
        "random": random.random(),
        "uuid": str(uuid.uuid4()),
    }


def _raise() -> None:
    raise KeyError("of the program")


def _at_exit() -> None:
    """Say something at each stage of an end, some of it unfinished."""
    atexit.register(print, "last")
    threading.Thread(target=lambda: time.sleep(0.01) or print("thread")).start()
    print("first", end="")
    sys.exit("why")


def _burn() -> None:
    while time.process_time() < 0.5:
        pass


def _wait() -> None:
    print("waiting", flush=True)
    while True:  # one long wait would miss a signal that comes just before it
        time.sleep(0.01)


ENDS: Final = {
    "state": lambda: Path(sys.argv[2]).write_text(json.dumps(_state())),
    "0": lambda: sys.exit(0),
    "none": lambda: None,
    "3": lambda: sys.exit(3),
    "300": lambda: sys.exit(300),
    "text": lambda: sys.exit("why"),
    "raise": _raise,
    "at exit": _at_exit,
    "interrupt": lambda: signal.raise_signal(signal.SIGINT),
    "terminate": lambda: signal.raise_signal(signal.SIGTERM),
    "kill": lambda: signal.raise_signal(signal.SIGKILL),
    "abort": os.abort,
    "leave": lambda: os._exit(7),
    "both": lambda: [print(f"line {number}", file=(sys.stdout, sys.stderr)[number % 2]) for number in range(6)],
    "large": lambda: print("x" * 300_000),
    "echo": lambda: sys.stdout.write(sys.stdin.read()),
    "burn": _burn,
    "wait": _wait,
}
"""What it does, by the first argument."""

if __name__ == "__main__":
    ENDS[sys.argv[1]]()
