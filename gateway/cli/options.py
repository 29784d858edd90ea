"""Options that several commands take, exit codes, and how a command ends with a failure."""

import asyncio
import errno
import os
import re
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from gateway.cli import COMMAND
from gateway.config.layers import mistaken_names
from gateway.config.source import ConfigError, ConfigSource
from gateway.settings import ResourceSettings, ServiceSettings, Settings
from gateway.text import did_you_mean

FILE: Final = click.Path(dir_okay=False, path_type=Path)
FAILED: Final = 1
UNUSABLE: Final = 2
NO_LISTING: Final = 3
_URL: Final = re.compile(r"[^/]*://|unix(?:\+http)?:")
_HOST: Final = re.compile(r"[\w.-]+(?::\d+(?:/|$)|/)")
_FILE: Final = "gateway.yaml"
_FILE_VARIABLE: Final = "GATEWAY_CONFIG"
_OPENING: Final = ("serve", "check")
_NO_TOKEN: Final = (
    ("bearer ", "", "begins with Bearer: leave that word out"), ('"', '"', "has quotes: leave them out"),
    ("{", "}", "is JSON: keep the value of its access_token alone"),
)  # fmt: skip
"""How a file without a token alone begins and ends, and what to do."""
_NAME_IT: Final = (
    f"Name the service: {COMMAND} {{}} URL, or a file: --config {_FILE}. "
    "schema --format yaml --minimal prints one to begin with."
)
_OPEN: Final = "There is no configuration file: authentication is off, on loopback only."


def fail(code: int, *lines: str) -> NoReturn:
    """Print lines on standard error and exit."""
    for line in lines:
        click.echo(line, err=True)
    raise SystemExit(code)


def program() -> tuple[str, ...]:
    """Return the command of this installation; a client may not have its folder on the path."""
    for script in (Path(sys.argv[0]), Path(sys.executable).with_name(COMMAND)):
        if script.stem == COMMAND and script.exists():
            return (str(script.absolute()),)
    return (sys.executable, "-m", "gateway")


@dataclass(frozen=True)
class Given:
    """Hold where the command line said that the configuration is: ``file`` also where it was found."""

    url: str | None
    file: Path | None
    overrides: tuple[str, ...]


def configured(command: Callable[..., None], here: bool = True) -> Callable[..., None]:
    """Add the argument URL, --config (else ``$GATEWAY_CONFIG``, else, with ``here``, gateway.yaml of this folder) and
    --set. The command gets ``settings``, and the ``source`` to load them again."""

    @click.argument("url", required=False)
    @click.option("--config", "named", type=click.Path(path_type=Path), metavar="FILE", multiple=True,
                  help="YAML file with the knobs, or the folder of gateway.yaml.")  # fmt: skip
    @click.option("--set", "overrides", multiple=True, metavar="SECTION.KNOB=VALUE",
                  help="One knob. Text is taken as it is, everything else is YAML.")  # fmt: skip
    @click.pass_context
    @wraps(command)
    def with_settings(
        context: click.Context, /, url: str | None, named: Sequence[Path], overrides: tuple[str, ...], **arguments: Any
    ) -> None:
        url = _check_url(context, url, arguments)
        if len(named) > 1:
            raise click.UsageError("--config stands once: write the knobs of both files in one", context)
        place = named[0] if named else os.environ.get(_FILE_VARIABLE)
        file = Path(place) if place else _in_this_folder() if here else None
        file = file / _FILE if file is not None and file.is_dir() else file
        context.obj = Given(url, file, overrides)
        knob = f"services.{name}.backend.url" if (name := arguments.get("name")) else "backend.url"
        stands_in = () if url is None else (f"{knob}={url}",)
        defaults = {} if url is None or file is not None else {"auth": {"mode": "off"}}
        source = ConfigSource(file, (*overrides, *stands_in), defaults)
        for line in mistaken_names(os.environ):
            click.echo(f"Warning: {line}", err=True)
        try:
            settings = source.load_settings()
        except ConfigError as error:
            hints = []
            if not {"backend.url: is required", f"{file}: {os.strerror(errno.ENOENT)}"}.isdisjoint(error.faults):
                hints.append(_NAME_IT.format(context.info_name))
            if url and "services." in "".join(error.faults):
                hints.append(f"The URL stands in for {knob}; --service NAME says of which service.")
            fail(UNUSABLE, "The configuration cannot be used:", *(f"  {fault}" for fault in error.faults), *hints)
        is_open = not any(service.auth.traits.authenticates for service in settings.resources)
        if defaults and is_open and context.info_name in _OPENING:
            click.echo(_OPEN, err=True)
        command(settings=settings, source=source, **arguments)

    return with_settings


configured_by_name: Final = partial(configured, here=False)
"""Without the file of this folder, which a client chooses: it may be a stranger's."""


def _in_this_folder() -> Path | None:
    file = Path(_FILE)
    if not file.is_file():
        return None
    click.echo(f"The configuration is {_FILE} of this folder.", err=True)
    return file


def _check_url(context: click.Context, url: str | None, arguments: dict[str, Any]) -> str | None:
    """Return the argument URL. Another first word is the argument TOOL, or raises :class:`click.UsageError`."""
    if arguments.get("tool", "") is None:
        if url is None or _URL.match(url):
            hint = f"`tools {url or ''}` lists them."
            raise click.MissingParameter(hint, context, param_hint="'TOOL'", param_type="argument")
        url, arguments["tool"] = None, url
    if url is not None and not _URL.match(url):
        others = "a file is --config FILE, a knob --set section.knob=value"
        others += ", a tool stands last" if "tool" in arguments else ""
        meant = f", http://{url}" if _HOST.match(url) else ""
        raise click.UsageError(f"{url} is not a URL: it begins with http:// or https://{meant}; {others}", context)
    return url


def read_token(file: Path) -> str:
    """Return the access token in a file. Raises :class:`OSError`."""
    words = file.read_text(encoding="ascii", errors="replace").split()
    text = " ".join(words).lower()
    begun = next((fault for first, last, fault in _NO_TOKEN if text.startswith(first) and text.endswith(last)), "")
    if begun or len(words) != 1 or not words[0].isascii():
        raise OSError(errno.EINVAL, begun or (words and "does not hold one access token on one line") or "is empty")
    return words[0]


def token_or_fail(file: Path) -> str:
    """Return the access token in a file. Ends the program where it cannot be read."""
    try:
        return read_token(file)
    except OSError as error:
        fail(UNUSABLE, f"--token-file {file}: {error.strerror}")


with_token: Final = click.option(
    "--token-file", "token", type=FILE, help="File with an access token to act with.",
    callback=lambda _, __, file: None if file is None else token_or_fail(file),
)  # fmt: skip
"""Add the option --token-file. The command gets ``token``, or None."""


def with_service(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option --service. The command gets ``services``: that service or group, or all."""

    @click.option("--service", "name", metavar="NAME", help="Which of several services, or a group.")
    @wraps(command)
    def with_services(settings: Settings, name: str | None, **arguments: Any) -> None:
        services = settings.resources
        names = [service.name for service in services if service.name]
        if name is not None and name not in names:
            known = f"there are {', '.join(names)}" if names else "the only one has no name: leave --service out"
            fail(UNUSABLE, f"--service {name}: is not a service; {known}{did_you_mean(name, names)}")
        chosen = tuple(service for service in services if name in (None, service.name))
        command(settings=settings, services=chosen, **arguments)

    return with_services


def with_one_service(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option --service, required where there are several. The command gets ``service``, which may be a group's
    where it asks for :class:`ResourceSettings`."""
    takes_groups = command.__annotations__.get("service") is ResourceSettings

    @with_service
    @wraps(command)
    def with_single(services: tuple[ResourceSettings, ...], **arguments: Any) -> None:
        if len(services) > 1:
            fail(UNUSABLE, f"Choose a service with --service: {', '.join(service.name for service in services)}.")
        if not takes_groups and not isinstance(services[0], ServiceSettings):
            fail(UNUSABLE, f"--service {services[0].name}: is a group; choose one of its services.")
        command(service=services[0], **arguments)

    return with_single


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run on uvloop where it is installed. Windows' usual loop has no ``add_reader``, which accepts connections."""
    make_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.SelectorEventLoop
    with suppress(ImportError):
        # At the top, this would fail on Windows, where there is no uvloop.
        import uvloop  # noqa: PLC0415

        make_loop = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(work)
