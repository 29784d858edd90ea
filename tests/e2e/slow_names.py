"""The command line on a system whose name server never answers for names below example.com.

python -m tests.e2e.slow_names serve --set ...
"""

from __future__ import annotations

import socket
import sys
import threading
from typing import Any

from gateway.cli import main

_real = socket.getaddrinfo


def _look_up(host: Any, *how: Any, **more: Any) -> Any:
    if str(host).endswith(".example.com"):
        print(f"{host} is looked up", file=sys.stderr, flush=True)
        threading.Event().wait()
    return _real(host, *how, **more)


if __name__ == "__main__":
    socket.getaddrinfo = _look_up
    main()
