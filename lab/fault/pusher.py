"""A service that pushes: ``python -m lab.fault.pusher WIRE KIND SIZE RATE SECONDS``, which prints its address.

Once a call came on a connection, it sends messages that belong to no call, for so many seconds. Without a rate it
sends as fast as they are read. It never answers that call.
"""

from __future__ import annotations

import base64
import os
import socket
import sys
import threading
import time
from hashlib import sha1
from tempfile import mkdtemp
from typing import Final

from tests.contract.frames import GUID, frame

_AT_ONCE: Final = 256 * 1024
_HEAD: Final = 64 * 1024
KINDS: Final = {
    "notifications": b'{"jsonrpc":"2.0","method":"tick","params":["%s"]}',
    "requests": b'{"jsonrpc":"2.0","id":7,"method":"tick","params":["%s"]}',
}


def main(wire: str, kind: str, size: int, rate: float, seconds: float) -> None:
    os.nice(19)  # what it takes of the core of the load is what that leaves
    text = KINDS[kind].replace(b"%s", b"x" * max(0, size - len(KINDS[kind])))
    message = frame(text) if wire == "ws" else text + b"\n"
    if wire == "unix":
        path = f"{mkdtemp()}/socket"
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.listen()
        print(f"unix:{path}", flush=True)
    else:
        server = socket.create_server(("127.0.0.1", 0))
        print(f"{wire}://127.0.0.1:{server.getsockname()[1]}", flush=True)
    while True:
        peer, _ = server.accept()
        threading.Thread(target=_serve, args=(peer, wire, message, rate, seconds), daemon=True).start()


def _serve(peer: socket.socket, wire: str, message: bytes, rate: float, seconds: float) -> None:
    try:
        if wire == "ws":
            _shake_hands(peer)
        peer.recv(_HEAD)
        threading.Thread(target=_drain, args=(peer,), daemon=True).start()
        _push(peer, message, rate, time.monotonic() + seconds)
    except OSError:
        pass  # the gateway has ended it
    finally:
        peer.close()


def _push(peer: socket.socket, message: bytes, rate: float, until: float) -> None:
    if not rate:
        many = message * max(1, _AT_ONCE // len(message))
        while time.monotonic() < until:
            peer.sendall(many)
        return
    began, sent = time.monotonic(), 0
    while (now := time.monotonic()) < until:
        due = int((now - began) * rate) - sent
        if due:
            peer.sendall(message * due)
            sent += due
        time.sleep(0.01)


def _drain(peer: socket.socket) -> None:
    try:
        while peer.recv(_AT_ONCE):
            pass
    except OSError:
        pass


def _shake_hands(peer: socket.socket) -> None:
    head = b""
    while b"\r\n\r\n" not in head:
        head += peer.recv(_HEAD)
    lines = head.decode("latin-1").split("\r\n")
    key = next(line.partition(":")[2].strip() for line in lines if line.lower().startswith("sec-websocket-key:"))
    accept = base64.b64encode(sha1(f"{key}{GUID}".encode()).digest())
    peer.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))
