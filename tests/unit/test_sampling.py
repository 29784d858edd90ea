"""Lines that strangers can cause: some are written, and the others counted."""

from __future__ import annotations

from structlog.testing import capture_logs

from gateway.auth.authenticator import Authenticator, PresentedToken
from gateway.auth.compact import InvalidToken, Undecidable
from gateway.auth.verifier import VerifiedToken
from gateway.errors import AuthUnavailable, Unauthorized
from gateway.telemetry.sampling import Sampler
from tests.manual_clock import ManualClock


def test_the_first_lines_of_each_period_are_written_and_the_next_one_counts_the_others() -> None:
    clock = ManualClock()
    sampler = Sampler(2, 10, clock)
    assert [sampler.admit() for _ in range(5)] == [{}, {}, None, None, None]
    clock.now += 9.9
    assert sampler.admit() is None
    clock.now += 0.1
    assert [sampler.admit() for _ in range(3)] == [{"more_since_last": 4}, {}, None]


def test_what_comes_seldom_is_always_written() -> None:
    clock = ManualClock()
    sampler = Sampler(1, 10, clock)
    for _ in range(5):
        assert sampler.admit() == {}
        clock.now += 10


def test_the_first_line_of_another_kind_is_always_written_up_to_some_kinds() -> None:
    clock = ManualClock()
    sampler = Sampler(1, 10, clock)
    assert [sampler.admit(kind) for kind in ("a", "a", "b", "b", "a")] == [{}, None, {"more_since_last": 1}, None, None]
    assert [sampler.admit(f"of a stranger {number}") is None for number in range(99)].count(False) == 14
    clock.now += 10
    assert sampler.admit("b") == {"more_since_last": 85}


class Unwilling:
    """A verifier that knows no token, or of some cannot tell."""

    async def verify_token(self, raw: str) -> VerifiedToken:
        if raw.startswith("doubt"):
            raise Undecidable("no keys")
        raise InvalidToken("expired" if raw == "bad-99" else "not known")


async def test_a_flood_of_bad_tokens_is_a_few_lines_in_the_log() -> None:
    clock = ManualClock()
    authenticator = Authenticator(Unwilling(), clock=clock)
    with capture_logs() as lines:
        for _ in range(2):
            for number in range(100):
                for kind, expected in (("bad", Unauthorized), ("doubt", AuthUnavailable)):
                    shown = PresentedToken([f"Bearer {kind}-{number}"], [], "POST", "/mcp", False, "192.0.2.1")
                    try:
                        await authenticator.authenticate(shown)
                    except expected:
                        continue
                    raise AssertionError("accepted")
            clock.now += 10
    for event, about, left_out in (
        ("token refused", {"reason": "not known", "address": "192.0.2.1"}, []),
        ("token refused", {"reason": "expired"}, [79, 79]),  # the last of each hundred, which is of another kind
        ("token cannot be verified", {"reason": "no keys"}, [80]),
    ):
        written = [line for line in lines if line["event"] == event and about.items() <= line.items()]
        assert len(written) == (2 if about == {"reason": "expired"} else 40)
        assert [line["more_since_last"] for line in written if "more_since_last" in line] == left_out
