"""Pins that an earlier release wrote still admit the same tools, so that nobody has to review them again.

``pins_before_0_1.json`` has what ``tools --pin`` wrote for each listing of ``listings/``, before
defaults that their own schema refuses were left out. It is never written again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from gateway.catalog.pins import Pins, parse_pins
from tests.contract.test_dialects import CASES, answers_of, built, fetched, name_of
from tests.each import each

KEPT: Final = json.loads(Path(__file__).with_name("pins_before_0_1.json").read_text())


@each("case", [case for case in CASES if name_of(case) in KEPT], ids=name_of)
async def test_a_pin_file_of_an_earlier_release_admits_the_same_tools(case: Path) -> None:
    listing = await fetched(case.parent.name, answers_of(case))
    catalog = await built(listing)
    pins = Pins(parse_pins({"tools": KEPT[name_of(case)]}, "the kept file"))
    drifted = {tool.method: fault.reason for tool in catalog.tools if (fault := pins.drift(tool)) is not None}
    assert drifted == {}
