"""The command line on a system that lacks what Windows lacks: signal handlers of loops, SIGHUP, uvloop, and the rest of
POSIX.

python -m tests.e2e.bare_system serve --set ...
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

ABSENT_MODULES = ("uvloop", "fcntl", "resource", "pwd", "grp", "termios", "syslog")
ABSENT_SIGNALS = ("SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCHLD", "SIGKILL")
ABSENT_CALLS = ("fork", "getuid", "geteuid", "getgid", "getegid", "getgroups", "chown", "fchown", "mkfifo", "nice")


def strip() -> None:
    for name in ("add_signal_handler", "remove_signal_handler"):
        delattr(asyncio.SelectorEventLoop, name)  # what is left raises NotImplementedError
    for name in ABSENT_SIGNALS:
        delattr(signal, name)
    for name in ABSENT_CALLS:
        delattr(os, name)
    for name in ABSENT_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]


if __name__ == "__main__":
    strip()
    from gateway.cli import main

    main()
