"""What a check decides on values of 1 MiB that a schema makes slow. How long that takes is a row of ``make bench``."""

from __future__ import annotations

import pytest

from gateway import jsonrpc
from gateway.schema.validation import MISMATCH, TOO_LARGE
from tests.hostile_values import CHECKED, LEFT_OUT, REFUSED, TOLD, UNTOLD, Hostile, cases, validator_of

CASES = cases()


def _verdict(hostile: Hostile) -> str:
    validator, value = validator_of(hostile), {"x": hostile.value}
    if validator.is_valid(value):
        return CHECKED if hostile.verdict == CHECKED else LEFT_OUT
    faults = validator.faults(value)
    return {(TOO_LARGE,): REFUSED, (MISMATCH,): UNTOLD}.get(tuple(faults), TOLD)


@pytest.mark.parametrize("hostile", CASES.values(), ids=CASES.keys())
def test_a_slow_value_of_a_mebibyte_is_decided_by_its_cost(hostile: Hostile) -> None:
    size, verdict = len(jsonrpc.encode(hostile.value)), _verdict(hostile)  # pytest would print the value
    assert (size <= 1024**2, verdict) == (True, hostile.verdict)
