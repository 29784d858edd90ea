"""The ledger, the table and the statistics of ``make fault`` find what they are there to find."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.authorization.stand import MODERN, Answer
from tests.each import each
from tests.fault.ledger import Ledger, Told, proof_of, read
from tests.fault.load import Sample, Samples
from tests.tables import each_row


def ledger(told: Told, runs: int) -> Ledger:
    found = Ledger()
    found.tell("call-7", told)
    found.runs["call-7"] += runs
    return found


@each_row
def test_what_callers_are_told_is_held_against_what_the_service_ran(
    told: Told, runs: int, wrong: int, twice: int, lost: int
) -> None:
    found = ledger(told, runs)
    assert (len(found.wrong), len(found.twice), len(found.lost)) == (wrong, twice, lost)


def answered(status: int, body: Any) -> Answer:
    return Answer(status, {"Content-Type": "application/json"}, json.dumps(body).encode())


def mcp(value: Any = None, failure: str = "") -> Answer:
    text = [{"type": "text", "text": failure or json.dumps(value)}]
    structured = {} if failure else {"structuredContent": value}
    return answered(200, {"result": {"isError": bool(failure), "content": text, **structured}})


@each(
    ("surface", "answer", "told"),
    [
        (MODERN, mcp(proof_of("call-7")), "right"),
        (MODERN, mcp(proof_of("call-8")), "wrong"),
        (MODERN, mcp({"number": "call-7", "proof": "made up"}), "wrong"),
        (MODERN, mcp(failure="No turn; the call was not sent, so it is safe to repeat"), "unsent"),
        (MODERN, mcp(failure="Nobody knows"), "failed"),
        (MODERN, answered(401, {"error": {"message": "No"}}), "denied"),
        ("rest", answered(200, proof_of("call-7")), "wrong"),
        ("rest", answered(200, {"result": proof_of("call-7")}), "right"),
        ("rest", answered(429, {"error": {"message": "Too many"}}), "unsent"),
        ("jsonrpc", answered(200, {"error": {"message": "Unknown tool: work"}}), "wrong"),
        ("jsonrpc", answered(502, {"result": proof_of("call-7")}), "wrong"),
    ],
)
def test_an_answer_is_right_only_with_the_proof_of_its_own_call(surface: str, answer: Answer, told: Told) -> None:
    try:
        seen = read(surface, "call-7", answer)[0]
    except KeyError:  # no answer of this surface at all, which callers count as wrong
        seen = "wrong"
    assert seen == told


def test_the_share_held_and_the_99th_percentile_are_those_of_the_samples() -> None:
    samples = Samples([Sample(number / 100, "right" if number < 90 else "failed") for number in range(100)])
    assert samples.held == pytest.approx(0.9)
    assert samples.p99 == samples.worst == pytest.approx(0.99)
    assert Samples([*samples.of, *[Sample(0, "right")] * 900]).p99 == pytest.approx(0.9)
