"""A warm request goes through few files of ours, so that a reader can follow it."""

from __future__ import annotations

from tests.request_path import TARGETS, counted, table


async def test_a_warm_call_and_a_warm_list_go_through_no_more_files_than_their_targets_say() -> None:
    counts = await counted()
    missed = [method for method, target in TARGETS.items() if not counts[method].meets(target)]
    assert missed == [], "\n".join(line for method in missed for line in table(method, counts[method], TARGETS[method]))


async def test_the_count_begins_with_the_first_byte_and_ends_with_the_last() -> None:
    for count in (await counted()).values():
        assert count.begun[0] == ("http_server/connection.py", "Connection.get_buffer")
        assert count.begun[-3:] == [
            ("http_server/connection.py", "Connection._finish"),
            ("http_server/connection.py", "Connection._next"),
            ("concurrency/turns.py", "Deadline.expire_in"),
        ]
