"""``check --agents``: what it says of a service, and what becomes of it once its YAML is pasted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fault.methods import Rpc
from tests.fault.scripted import ScriptedBackend
from tests.program import run, settings


@pytest.fixture
def methods() -> Sequence[Rpc]:
    return (
        Rpc("greet", summary="greet"),
        Rpc("sendpayment", summary="Pays."),
        Rpc("tell", summary="Tells it all. " * 100),
    )


async def test_each_piece_of_yaml_is_pasted_and_mends_its_row(backend: ScriptedBackend, tmp_path: Path) -> None:
    ran = await run("check", "--agents", "--json", *settings(backend.url))
    assert ran.code == 0
    rows = json.loads(ran.out)["services"][0]["advice"]
    assert [row["tools"] for row in rows] == [["greet"], ["sendpayment"], ["tell"]]
    for number, row in enumerate(rows):
        file = tmp_path / f"{number}.yaml"
        file.write_text(row["yaml"] + "\n")
        again = await run("check", "--agents", "--json", "--config", str(file), *settings(backend.url))
        assert again.code == 0, again.err
        left = json.loads(again.out)["services"][0]["advice"]
        assert [one["why"] for one in left] == [one["why"] for one in rows if one is not row]


async def test_the_report_has_the_tokens_the_reasons_and_the_yaml(backend: ScriptedBackend) -> None:
    ran = await run("check", "--agents", *settings(backend.url))
    assert ran.code == 0
    said = ran.out[ran.out.index("agents  ") :]
    assert "tokens of a model's context in the list" in said
    assert "  greet: no description" in said
    assert '    catalog:\n      tools:\n        "sendpayment": {"confirm":true}' in said
    assert json.loads((await run("check", "--json", *settings(backend.url))).out)["services"][0]["advice"] is None
