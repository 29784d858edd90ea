"""Options that several commands take, exit codes, and how a command ends with a failure."""

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
    """Print lines on standard error and exit."""
    for line in lines:
        click.echo(line, err=True)
    raise SystemExit(code)


def configured(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options --config and --set. The command gets ``settings``, and the ``source`` to load them again."""

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
    """Add the option --token-file. The command gets ``token``, or None."""

    @click.option(
        "--token-file", type=click.Path(dir_okay=False, path_type=Path), help="File with an access token to act with."
    )
    @wraps(command)
    def with_read_token(token_file: Path | None, **arguments: Any) -> None:
        try:
            token = None if token_file is None else token_file.read_text(encoding="ascii").strip()
        except OSError as error:
            fail(UNUSABLE, f"--token-file {token_file}: {error.strerror}")
        except UnicodeDecodeError:
            fail(UNUSABLE, f"--token-file {token_file}: does not hold an access token")
        command(token=token, **arguments)

    return with_read_token


def with_service(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option --service. The command gets ``services``: that one, or all."""

    @click.option("--service", "name", metavar="NAME", help="Which of several services.")
    @wraps(command)
    def with_services(settings: Settings, name: str | None, **arguments: Any) -> None:
        services = tuple(settings.by_mount.values())
        names = [service.name for service in services if service.name]
        if name is not None and name not in names:
            hint = "".join(f"; did you mean {near}?" for near in difflib.get_close_matches(name, names, n=1))
            known = f"there are {', '.join(names)}" if names else "the only one is at the root and has no name"
            fail(UNUSABLE, f"--service {name}: is not a service; {known}{hint}")
        chosen = tuple(service for service in services if name in (None, service.name))
        command(settings=settings, services=chosen, **arguments)

    return with_services


def with_one_service(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option --service, required where there are several. The command gets ``service``."""

    @with_service
    @wraps(command)
    def with_single(services: tuple[ServiceSettings, ...], **arguments: Any) -> None:
        if len(services) > 1:
            fail(UNUSABLE, f"Choose a service with --service: {', '.join(service.name for service in services)}.")
        command(service=services[0], **arguments)

    return with_single
