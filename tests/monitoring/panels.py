"""The panels of the dashboard in deploy/monitoring, which are panels.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gateway.config.strict_yaml import read_yaml
from tests.monitoring.panel import ALL, LIGHTS, OF, Panel, stat, table

_FILE: Final = Path(__file__).with_name("panels.yaml")


def _panel(
    title: str,
    says: str,
    shows: Mapping[str, str],
    unit: str = "short",
    lights: str | None = None,
    hides: Sequence[str] = (),
) -> Panel:
    """Return the panel that a title of the file has these members of."""
    shows = {legend: text.replace("<of>", OF).replace("<all>", ALL) for legend, text in shows.items()}
    if lights is not None:
        return stat(title, shows, says, LIGHTS[lights], unit)
    return table(title, shows, says, hides) if hides else Panel(title, shows, says, unit)


ROWS: Final[dict[str, tuple[Panel, ...]]] = {
    row: tuple(_panel(title, **members) for title, members in panels.items())
    for row, panels in read_yaml(_FILE.read_text(encoding="utf-8"), _FILE.name).items()
}
