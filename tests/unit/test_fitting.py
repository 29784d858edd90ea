"""A result that is too large for a model stays JSON, and says what is missing of it."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from gateway import jsonrpc
from gateway.errors import BackendError, ResultMismatch
from gateway.http_server.held_bytes import HeldBytes
from gateway.jsonrpc import Raw
from gateway.mcp.content import BLOCKS_2025_06, ToolProjector, call_meta, call_result, fit_result
from gateway.model import NO_RESULT, Binding, Outcome, ResultFit, Structure, Tool
from gateway.telemetry.exchange_memory import ExchangeMemory
from gateway.telemetry.record import RECORD, Record
from tests.each import each
from tests.tables import each_row

MODERN: Final = ToolProjector(), BLOCKS_2025_06
COUNT: Final = re.compile(r"(\d+) more (item|member|character)s?")


def tool_with(fit: ResultFit, *arguments: str) -> Tool:
    schema = {"type": "object", "properties": {name: {} for name in arguments}}
    return Tool("t", "t", "t", schema, Binding("t", Structure.BY_NAME), output_schema={"type": "object"}, fit=fit)


async def fitted(value: Any, fit: ResultFit, *arguments: str, raw: bool = False) -> Outcome:
    tool = tool_with(fit, *arguments)
    return await fit_result(Outcome(tool, Raw(jsonrpc.encode(value)) if raw else value), fit)


async def shown(value: Any, most: int, *arguments: str, raw: bool = False) -> tuple[Any, str]:
    """Return the value that a model is shown, and what it is told of the rest."""
    outcome = await fitted(value, ResultFit(most=most), *arguments, raw=raw)
    result = call_result(outcome, *MODERN)
    assert result["isError"] is False
    if not outcome.more:
        assert call_meta(outcome) == {}
        return outcome.value, ""
    first, second = result["content"]
    assert result.keys() == {"content", "isError"}
    assert call_meta(outcome) == {"truncated": True}
    assert len(first["text"].encode()) <= most
    return json.loads(first["text"]), second["text"]


async def test_the_first_items_of_a_list_are_shown_and_the_others_are_counted() -> None:
    items = [{"id": number} for number in range(1000)]
    kept, more = await shown(items, 2048, "kind", "limit", "page_size")
    assert kept == items[: len(kept)]
    assert more == f"{1000 - len(kept)} more items: narrow with limit or page_size"
    assert len(jsonrpc.encode(items[: len(kept) + 1])) > 2048
    assert await shown(items, 2048, "limit", "page_size", raw=True) == (kept, more)


async def test_only_arguments_that_ask_for_less_are_named() -> None:
    _, more = await shown(list(range(1000)), 256, "account", "stop", "discount", "itemCount", "page_size")
    assert more.endswith("items: narrow with itemCount or page_size")


async def test_of_an_object_the_large_list_is_cut_and_its_small_members_stay() -> None:
    value = {"total": 1000, "items": list(range(10_000)), "next": "abc", "other": ["x" * 100] * 100}
    kept, more = await shown(value, 4096)
    assert list(kept) == list(value)
    assert (kept["total"], kept["next"]) == (1000, "abc")
    assert len(kept["items"]) > 300
    assert len(kept["other"]) > 10
    assert more == f"{10_100 - len(kept['items']) - len(kept['other'])} more items"


async def test_a_short_text_without_room_is_left_out_whole() -> None:
    """Half a name, or half a date, says something else."""
    kept, more = await shown({"town": "t" * 70, "name": "n" * 80}, 100)
    assert (kept, more) == ({"name": "n" * 80}, "1 more member")


async def test_a_long_text_is_cut_within_its_characters() -> None:
    text = '"ä\u20ac\U0001f600\n' * 1000
    kept, more = await shown(text, 1000, "offset")
    assert text.startswith(kept)
    assert more == f"{len(text) - len(kept)} more characters: narrow with offset"
    kept, more = await shown({"id": 1, "log": text}, 1000)
    assert (kept["id"], text.startswith(kept["log"]), len(kept["log"]) > 100) == (1, True, True)


async def test_one_item_that_is_too_large_is_cut_itself() -> None:
    kept, more = await shown([{"name": "first", "rows": list(range(1000))}, {"name": "second"}], 300)
    assert kept[0]["name"] == "first"
    assert kept[0]["rows"][:3] == [0, 1, 2]
    assert re.fullmatch(r"\d+ more items", more)


@each("value", [10**600, [10**600], {"a": 10**600}, {"x" * 900: 1}, [[[10**600]]]])
async def test_what_cannot_be_cut_is_left_out_or_becomes_a_text(value: Any) -> None:
    kept, more = await shown(value, 256)
    assert more
    assert kept is not None


async def test_nested_values_are_cut_however_deep() -> None:
    value: Any = list(range(1000))
    for _ in range(400):
        value = [value]
    _, more = await shown(value, 256)
    assert more.endswith(("more item", "more items"))


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=400),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=40), inner, max_size=30),
    max_leaves=60,
)


def counted(before: Any, after: Any) -> dict[str, int]:
    """Return what is missing in ``after``; fail where it is no part of ``before``."""
    found = {"item": 0, "member": 0, "character": 0}
    if isinstance(before, str):
        assert before.startswith(after)
        found["character"] = len(before) - len(after)
        return found
    pairs: list[tuple[Any, Any]] = []
    if isinstance(before, list):
        found["item"] = len(before) - len(after)
        pairs = list(zip(before, after, strict=False))
    elif isinstance(before, dict):
        assert list(after) == [name for name in before if name in after]
        found["member"] = len(before) - len(after)
        pairs = [(before[name], after[name]) for name in after]
    else:
        assert before == after
    for pair in pairs:
        for what, count in counted(*pair).items():
            found[what] += count
    return found


@given(values, st.integers(256, 2000), st.booleans())
async def test_a_cut_value_is_json_that_fits_and_a_part_of_the_whole(value: Any, most: int, raw: bool) -> None:
    kept, more = await shown(value, most, raw=raw)
    if not more:
        kept = jsonrpc.decode(kept) if isinstance(kept, Raw) else kept
        assert kept == value
        return
    assert {what: int(count) for count, what in COUNT.findall(more)} == {
        what: count for what, count in counted(value, kept).items() if count
    }


@each_row
async def test_what_the_operator_selects_is_shown(fit: ResultFit, value: Any, expected: Any) -> None:
    for raw in (False, True):
        outcome = await fitted(value, fit, raw=raw)
        assert (outcome.value, outcome.more) == (expected, "")
        assert call_result(outcome, *MODERN)["isError"] is False


async def test_faults_questions_and_calls_without_a_result_stay() -> None:
    fit = ResultFit("$.a", ("b",), 256)
    for outcome in (Outcome(tool_with(fit), fault=BackendError("no" * 500)), Outcome(tool_with(fit), NO_RESULT)):
        assert await fit_result(outcome, fit) is outcome


@each("many", [100, 10_000])
async def test_the_small_members_of_an_object_with_many_stay(many: int) -> None:
    kept, more = await shown({f"k{number}": "x" * 300 for number in range(many)} | {"total": many, "next": "abc"}, 4096)
    assert (kept["total"], kept["next"]) == (many, "abc")
    assert len(kept) > 10
    assert more == f"{many + 2 - len(kept)} more members"
    assert set(kept.values()) == {many, "abc", "x" * 300}


async def test_the_memory_of_a_result_is_counted_on_the_event_loop() -> None:
    """A counter that threads change would be wrong after a while, and its timers need the loop."""
    room = HeldBytes(100 * 1024 * 1024)
    room.add("", 50 * 1024 * 1024)
    room.bytes = 0  # as hot paths do
    token = RECORD.set(Record("r", memory=ExchangeMemory(room)))
    try:
        kept, more = await shown(list(range(10_000)), 1024, raw=True)
    finally:
        RECORD.reset(token)
    assert (kept[:3], more) == ([0, 1, 2], f"{10_000 - len(kept)} more items")
    assert room.bytes > 10_000


class NoRoom:
    """Memory that is taken: a value cannot be decoded."""

    def take(self, *_: Any, **__: Any) -> bool:
        return False

    def remove(self, *_: Any) -> None:
        raise AssertionError("nothing was taken")


async def test_without_memory_for_its_parts_a_result_is_cut_as_a_text() -> None:
    record = Record("r", memory=ExchangeMemory(room=NoRoom()))
    token = RECORD.set(record)
    try:
        kept, more = await shown(list(range(1000)), 256, raw=True)
    finally:
        RECORD.reset(token)
    assert kept.startswith("[0,1,2")
    assert more.endswith("more characters")


async def test_the_quote_of_a_result_that_breaks_its_schema_is_no_longer_than_a_result() -> None:
    fit, fault = ResultFit(most=2048), ResultMismatch("The call ran; it breaks its schema\n\n" + "x" * 60_000)
    outcome = await fit_result(Outcome(tool_with(fit), fault=fault), fit)
    (block,) = call_result(outcome, *MODERN)["content"]
    assert block["text"].startswith("The call ran; it breaks its schema\n\nxxx")
    assert len(block["text"].encode()) <= 2048
    other = BackendError("y" * 4096)  # what the service says of a failure is short
    assert (await fit_result(Outcome(tool_with(fit), fault=other), fit)).fault is other
    assert other.message == "y" * 4096
