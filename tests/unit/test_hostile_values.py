"""What a check decides on values of 1 MiB that a schema makes slow. How long that takes is a row of ``make bench``."""

from __future__ import annotations

from gateway import jsonrpc
from gateway.schema.validation import MISMATCH, TOO_LARGE
from tests.hostile_values import CHECKED, LEFT_OUT, REFUSED, TOLD, UNTOLD, Hostile, cases, validator_of


def _verdict(hostile: Hostile) -> str:
    validator, value = validator_of(hostile), {"x": hostile.value}
    if validator.is_valid(value):
        return CHECKED if hostile.verdict == CHECKED else LEFT_OUT
    faults = validator.faults(value)
    return {(TOO_LARGE,): REFUSED, (MISMATCH,): UNTOLD}.get(tuple(faults), TOLD)


def test_a_slow_value_of_a_mebibyte_is_decided_by_its_cost() -> None:
    """All in one test: they are seconds of work to make, and much to keep."""
    hostile = cases()
    decided = {name: (len(jsonrpc.encode(one.value)) <= 1024**2, _verdict(one)) for name, one in hostile.items()}
    assert decided == {name: (True, one.verdict) for name, one in hostile.items()}
