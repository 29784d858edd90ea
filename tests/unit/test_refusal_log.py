"""What the log says of strangers who are refused, however many they are."""

from __future__ import annotations

from structlog.testing import capture_logs

from gateway.http_server.refusal_log import RefusalLog


def test_of_a_thousand_addresses_that_are_refused_ten_are_named_and_each_of_these_when_it_is_over() -> None:
    with capture_logs() as lines:
        refusals = RefusalLog("connections", "server.max_connections")
        refusals.count("", 40, "raise the knob")
        for number in range(1000):
            refusals.count(f"10.0.{number // 250}.{number % 250}", 10, "name it in server.trusted_proxies")
        for number in range(1000):
            refusals.note(f"10.0.{number // 250}.{number % 250}", 0, 10)
        refusals.note("", 0, 40)
    begun = [line.get("address", "") for line in lines if line["event"] == "connections are refused"]
    over = [line.get("address", "") for line in lines if line["event"] == "connections are no longer refused"]
    assert sorted(begun) == sorted(over)
    assert len(begun) == 11
    assert "" in begun, "the bound of all is always told"
