"""Options that several commands take, and how a command ends that cannot go on."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from gateway.config import ConfigError, ConfigSource
from gateway.layers import mistaken_names
from gateway.settings import ServiceSettings, Settings

FAILED: Final = 1
UNUSABLE: Final = 2
NO_LISTING: Final = 3


def fail(code: int, *lines: str) -> NoReturn:
    for line in lines:
        click.echo(line, err=True)
    raise SystemExit(code)


def configured(command: Callable[..., None]) -> Callable[..., None]:
    """The options --config and --set, as ``settings`` and the ``source`` that they are from."""

    @click.option("--config", "file", type=click.Path(dir_okay=False, path_type=Path), help="YAML file with the knobs.")
    @click.option("--set", "overrides", multiple=True, metavar="SECTION.KNOB=VALUE",
                  help="One knob. Text is taken as it is, everything else is YAML.")  # fmt: skip
    @wraps(command)
    def with_settings(file: Path | None, overrides: tuple[str, ...], **arguments: Any) -> None:
        source = ConfigSource(file, overrides)
        for line in mistaken_names(os.environ):
            click.echo(f"Warning: {line}", err=True)
        try:
            settings = source.load_settings()
        except ConfigError as error:
            fail(UNUSABLE, "The configuration cannot be used:", *(f"  {fault}" for fault in error.faults))
        command(settings=settings, source=source, **arguments)

    return with_settings


def with_token(command: Callable[..., None]) -> Callable[..., None]:
    """The option --token-file, as ``token``."""

    @click.option(
        "--token-file", type=click.Path(dir_okay=False, path_type=Path), help="File with an access token to ask with."
    )
    @wraps(command)
    def with_read_token(token_file: Path | None, **arguments: Any) -> None:
        try:
            token = None if token_file is None else token_file.read_text(encoding="ascii").strip()
        except OSError as error:
            fail(UNUSABLE, f"--token-file {token_file}: {error.strerror}")
        except UnicodeDecodeError:
            fail(UNUSABLE, f"--token-file {token_file}: holds no access token")
        command(token=token, **arguments)

    return with_read_token


def with_service(command: Callable[..., None]) -> Callable[..., None]:
    """The option --service, as ``services``: that one, or all."""

    @click.option("--service", "name", metavar="NAME", help="Which of several services.")
    @wraps(command)
    def with_chosen(settings: Settings, name: str | None, **arguments: Any) -> None:
        services = tuple(settings.by_mount.values())
        names = [service.name for service in services if service.name]
        if name is not None and name not in names:
            meant = difflib.get_close_matches(name, names, n=1)
            there = f"there are {', '.join(names)}" if names else "the only one is at the root and has no name"
            fail(UNUSABLE, f"--service {name}: is no service; {there}" + "".join(f"; did you mean {m}?" for m in meant))
        chosen = tuple(service for service in services if name in (None, service.name))
        command(settings=settings, services=chosen, **arguments)

    return with_chosen


def with_one_service(command: Callable[..., None]) -> Callable[..., None]:
    """The option --service, as ``service``; it need not be given where there is one alone."""

    @with_service
    @wraps(command)
    def with_the_one(services: tuple[ServiceSettings, ...], **arguments: Any) -> None:
        if len(services) > 1:
            fail(UNUSABLE, f"Say which service with --service: {', '.join(service.name for service in services)}.")
        command(service=services[0], **arguments)

    return with_the_one
