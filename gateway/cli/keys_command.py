"""The command ``keys``: make, list and revoke API keys. It changes the key file, which running gateways read again."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

from gateway.auth.api_keys import digest_of, new_key
from gateway.cli.options import FAILED, FILE, UNUSABLE, fail
from gateway.config.key_file import KeyFileError, add_key, entry_text, new_entry, read_keys, revoke_keys
from gateway.settings.auth import ApiKey
from gateway.units import parse_duration

_IN: Final = click.option(
    "--file", type=FILE, default="keys.yaml", show_default=True, help="The file (auth.keys.file)."
)


@click.group()
def keys() -> None:
    """Make, list and revoke API keys, for callers without an issuer."""


@keys.command()
@click.argument("name")
@click.option("--scopes", default="", metavar="A,B", help="Scopes that the key grants. Absent: none.")
@click.option("--expires", metavar="90d", help="Time for which the key is good. Absent: until it is revoked.")
@click.option("--print", "only_prints", is_flag=True, help="Print the entry, for a Secret, and write no file.")
@_IN
def add(name: str, scopes: str, expires: str | None, only_prints: bool, file: Path) -> None:
    """Make a key for NAME, and print it once. The file gets its SHA-256. A name may have two keys, for rotation."""
    key = new_key()
    try:
        until = None if expires is None else _end(expires)
        entry = new_entry(name, digest_of(key), scopes.replace(",", " ").split(), until)
        if not only_prints:
            add_key(file, entry)
    except (KeyFileError, OSError, ValueError) as error:
        fail(UNUSABLE, str(error))
    if only_prints:
        click.echo(entry_text(entry), nl=False)
    click.echo(key, err=only_prints)
    where = "Nothing is written: add the entry to auth.keys.file." if only_prints else f"{file} has its SHA-256."
    click.echo(f"This is the key of {name}, {_until(entry)}. It is not shown again. {where}", err=True)


@keys.command("list")
@_IN
def show(file: Path) -> None:
    """List the keys: name, how its SHA-256 begins, until when it is good, and its scopes."""
    for key in _usable(read_keys, file):
        click.echo(f"{key.name:20} {key.short}  {_until(key):32}  {' '.join(key.scopes) or '-'}")


@keys.command()
@click.argument("name")
@click.option("--key", "digest", default="", metavar="SHA256", help="The one whose SHA-256 begins so. Absent: all.")
@_IN
def revoke(name: str, digest: str, file: Path) -> None:
    """Revoke the keys of NAME. A gateway that reads the file refuses them within 2 s, and ends their streams."""
    gone = _usable(revoke_keys, file, name, digest.lower())
    if not gone:
        of = f" whose SHA-256 begins with {digest}" if digest else ""
        fail(FAILED, f"{file} has no key of {name}{of}: `keys list` shows them.")
    click.echo(f"Revoked: {', '.join(f'{key.name} {key.short}' for key in gone)}")
    click.echo(
        f"A gateway whose auth.keys.file is {file} refuses what was revoked within 2 s, also where the rest of its "
        "configuration is faulty. No gateway was asked: a call with the key shows whether one reads this file.",
        err=True,
    )


def _usable(act: Any, *arguments: Any) -> Any:
    try:
        return act(*arguments)
    except (KeyFileError, OSError) as error:
        fail(UNUSABLE, str(error))


def _end(lifetime: str) -> datetime:
    try:
        if (seconds := parse_duration(lifetime)) > 0:
            return datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        pass
    raise ValueError(f"--expires {lifetime}: must be a time such as 90d or 12h")


def _until(key: ApiKey) -> str:
    if key.expires is None:
        return "good until it is revoked"
    return f"{'expired' if key.expires <= datetime.now(UTC) else 'good until'} {key.expires:%Y-%m-%d %H:%M} UTC"
