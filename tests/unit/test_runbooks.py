"""The runbooks of the admin page are those of docs/operating.md."""

from __future__ import annotations

import re

from tests.runbooks import PARTS, SOURCE, TEMPLATE, runbooks, template
from tests.unit.test_structure import GATEWAY


def test_the_page_has_the_runbooks_that_make_config_would_write() -> None:
    assert TEMPLATE.read_text() == template(SOURCE.read_text()), "the runbooks are stale: make config"


def test_each_alert_says_what_it_means_where_to_look_and_what_to_do() -> None:
    found = runbooks(SOURCE.read_text())
    assert len(found) > 20
    assert {name: tuple(parts) for name, parts in found.items()} == dict.fromkeys(found, PARTS)


def test_each_problem_of_the_status_has_its_runbook() -> None:
    named = {name for file in GATEWAY.rglob("*.py") for name in re.findall(r'"(McpGateway\w+)"', file.read_text())}
    assert len(named) > 5
    assert named <= set(runbooks(SOURCE.read_text()))


def test_texts_of_the_documentation_are_text() -> None:
    section = "### One\n\n- **Means.** `a < b` and <img>.\n- **Look at** [two](#two), [c](d.md#e).\n- **Do.** &\n"
    assert runbooks(f"## Alerts\n\n{section}\n## Incidents\n") == {
        "One": {
            "Means": "<code>a &lt; b</code> and &lt;img&gt;.",
            "Look at": '<a href="#two">two</a>, c (docs/d.md#e).',
            "Do": "&amp;",
        }
    }
