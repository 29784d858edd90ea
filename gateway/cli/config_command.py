"""The command ``config``: what is set and by what, what another file would change, and an old file made new."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from gateway.cli import report
from gateway.cli.options import FAILED, FILE, UNUSABLE, Given, configured, fail
from gateway.config import migration
from gateway.config.layers import UnresolvedReference, read_text
from gateway.config.source import (
    ConfigError,
    ConfigSource,
    differing,
    needs_restart,
    origins_of_values,
    set_values,
    shown,
)
from gateway.config.strict_yaml import NotYaml
from gateway.settings import Settings

_ABSENT: Final = "absent"


@click.group()
def config() -> None:
    """Show what is set and where it comes from, or what another file would change; rewrite an old file."""


@config.command()
@configured
@click.option("--origin", is_flag=True, help="Say where each value comes from: file and line, variable, or --set.")
def show(source: ConfigSource, origin: bool, **_: Any) -> None:
    """Print each knob that is set, with its value. Secrets are masked."""
    rows = [(f"{knob} = {value}", where) for knob, value, where in origins_of_values(source.layers)]
    width = max((len(text) for text, _ in rows), default=0)
    report.say(*(f"{text:{width}}  # {where}" if origin else text for text, where in rows))


@config.command()
@click.argument("new", type=FILE)
@configured
@click.pass_obj
def diff(given: Given, /, settings: Settings, source: ConfigSource, new: Path, **_: Any) -> None:
    """Print what a reload of the file NEW in place of the configuration would change, and what needs a restart.

    Ends with 1 where anything differs, with 2 where NEW cannot be used.
    """
    try:
        other = ConfigSource(new, given.overrides).load_settings()
    except ConfigError as error:
        fail(UNUSABLE, f"{new} cannot be used:", *(f"  {fault}" for fault in error.faults))
    lines = [*_differences(settings, other)]
    report.say(*(lines or [f"{new} changes nothing."]))
    if lines:
        raise SystemExit(FAILED)


@config.command()
@click.argument("old", type=FILE)
@click.option("--write", is_flag=True, help="Change the file, instead of printing what it becomes.")
def migrate(old: Path, write: bool) -> None:
    """Print the file OLD without the knobs that left: each is moved or removed, and comments stay."""
    try:
        text, done = migration.migrate(read_text(old, str(old)), str(old))
    except (UnresolvedReference, NotYaml) as error:
        fail(UNUSABLE, str(error))
    if write:
        old.write_text(text, encoding="utf-8")
    else:
        click.echo(text, nl=False)
    click.echo("\n".join(done or [f"{old} has no knob that left."]), err=True)


def _differences(old: Settings, new: Settings) -> Iterator[str]:
    restart, before, after = needs_restart(old, new), _rows(old), _rows(new)
    for path in differing(old, new):
        note = "  (needs a restart)" if path in restart else ""
        if path.startswith("services.") and path.count(".") == 1:
            yield f"{'-' if any(name.startswith(f'{path}.') for name in before) else '+'} service {path[9:]}"
            continue
        names = [name for name in {**before, **after} if f"{name}.".startswith(f"{path}.")]
        rows = [(name, before.get(name, _ABSENT), after.get(name, _ABSENT)) for name in names]
        changed = [f"~ {name}: {was} -> {now}{note}" for name, was, now in rows if was != now]
        yield from changed or [f"~ {path}: a secret{note}"]


def _rows(settings: Settings) -> dict[str, str]:
    """Return each value as it is shown, by its knob."""
    values = set_values(settings.model_dump(mode="json", by_alias=True))
    return {".".join(map(str, path)): shown(path, value) for path, value in values}
