"""Ten thousand calls under a required audit, which is rotated four times, and then the gateway is killed."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.test_audit_file import killed_between_rotations


async def test_ten_thousand_calls_rotations_and_a_kill_lose_no_call_that_was_begun(tmp_path: Path) -> None:
    assert await killed_between_rotations(tmp_path, calls=10_000, rotations=4) >= 10_000
