"""What the frames of a WebSocket cost the gateway: a call written and its answer read, without the network."""

from __future__ import annotations

import time
from typing import Final

from gateway.http_client.websocket import WebSocketFrames
from tests.contract.frames import frame

_CALLS: Final = 5_000
_REPEATS: Final = 5
_CALL: Final = b'{"jsonrpc":"2.0","id":"c1","method":"add","params":{"a":1,"b":2}}'
_ANSWER: Final = frame(b'{"jsonrpc":"2.0","id":"c1","result":{"sum":3,"text":"' + b"x" * 100 + b'"}}')


def microseconds_per_call() -> list[float]:
    return [_measure() for _ in range(_REPEATS)]


def _measure() -> float:
    frames = WebSocketFrames(2**20)
    began = time.process_time()
    for _ in range(_CALLS):
        frames.wrap(_CALL)
        if not any(frames.feed(_ANSWER)):
            raise ValueError("an answer was not read")
    return (time.process_time() - began) / _CALLS * 1e6
