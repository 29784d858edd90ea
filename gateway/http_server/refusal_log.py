"""Log refused clients: a line when refusals begin and one when they end. Of thousands of addresses a few are named."""

from typing import Final

import structlog

from gateway.telemetry.sampling import Sampler

_NAMED: Final = 10
_SECONDS: Final = 10.0  # at most so many addresses are named in so many seconds
_ROOM_AGAIN: Final = 0.9
"""The part of a maximum below which refusals count as over. A number near its maximum must not fill the log."""

log = structlog.get_logger()


class RefusalLog:
    """Log refusals of ``what``, whose maximum is ``knob``. A key says whose maximum it is, "" for that of all."""

    def __init__(self, what: str, knob: str) -> None:
        self._what = what
        self._knob = knob
        self._refused: dict[str, int] = {}
        self._named: set[str] = set()
        self._sampler = Sampler(_NAMED, _SECONDS)

    def count(self, key: str, most: int, remedy: str) -> None:
        """Count a refusal, and log the first one."""
        if key not in self._refused and (more := self._sampler.admit() if key else {}) is not None:
            self._named.add(key)
            log.warning(f"{self._what} are refused", knob=self._knob, most=most, remedy=remedy, **_whose(key), **more)
        self._refused[key] = self._refused.get(key, 0) + 1

    def note(self, key: str, number: int, most: int) -> None:
        """Log that refusals are over, if ``number`` is well below ``most`` again."""
        if key in self._refused and number < most * _ROOM_AGAIN:
            refused = self._refused.pop(key)
            if key in self._named:
                self._named.remove(key)
                log.info(f"{self._what} are no longer refused", refused=refused, **_whose(key))


def _whose(key: str) -> dict[str, str]:
    return {"address": key} if key else {}
