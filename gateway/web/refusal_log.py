"""Log that strangers are being refused: a line when it begins and a line when it is over, not one for each of them."""

from __future__ import annotations

from typing import Final

import structlog

_ROOM_AGAIN: Final = 0.9
"""The part of a bound below which it is no longer reached. A number that moves about its bound fills no log."""

log = structlog.get_logger()


class RefusalLog:
    """Log the refusals of one kind. ``what`` is refused, for example "connections"; ``knob`` bounds it. A key names
    whose bound is reached, "" for the bound of all."""

    def __init__(self, what: str, knob: str) -> None:
        self._what = what
        self._knob = knob
        self._refused: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<RefusalLog of {self._what}, {self._refused}>"

    def count(self, key: str, most: int, remedy: str) -> None:
        """Count a refusal, and log the first one."""
        if key not in self._refused:
            whose = {"address": key} if key else {}
            log.warning(f"{self._what} are refused", knob=self._knob, most=most, remedy=remedy, **whose)
        self._refused[key] = self._refused.get(key, 0) + 1

    def note(self, key: str, number: int, most: int) -> None:
        """Log that nothing is refused any more, if ``number`` is well below ``most`` again."""
        if key in self._refused and number < most * _ROOM_AGAIN:
            whose = {"address": key} if key else {}
            log.info(f"{self._what} are no longer refused", refused=self._refused.pop(key), **whose)
