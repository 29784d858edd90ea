"""The command ``connect``: print or write the entry that makes an MCP client use the gateway."""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click

from gateway import jsonrpc
from gateway.cli import COMMAND
from gateway.cli.client_entries import change_entry
from gateway.cli.options import FILE, UNUSABLE, Given, configured, fail, program, with_service
from gateway.config.layers import ENVIRONMENT_PREFIX, read_yaml_with_references, with_absolute_files
from gateway.settings import ResourceSettings
from gateway.settings.knobs import texts_in
from gateway.settings.paths import find_knob
from gateway.settings.sending import names_in
from gateway.text import secrets_in
from gateway.web.clients import CLIENTS, Client, Entry, NotAdded

_OTHER: Final = "Another is named with --entry, another file with --file."
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_FILE_REFERENCE: Final = re.compile(r"(?<!\$)\$\{file:([^}]*)\}")


@click.command()
@configured
@with_service
@click.option("--client", "client_name", type=click.Choice(list(CLIENTS)), default="json", show_default=True,
              help="For which client.")  # fmt: skip
@click.option("--http", is_flag=True, help="An entry with the URL of serve, in place of one that starts stdio.")
@click.option("--client-id", metavar="ID", help="With --http: the client id for logins, where none registers itself.")
@click.option("--key-env", metavar="NAME", help="With --http: the variable of the environment that has an API key.")
@click.option("--entry", "entry_name", metavar="NAME", help="Name of the entry. Absent: the service's.")
@click.option("--token-file", type=FILE, metavar="FILE", help="File with the access token that stdio acts with.")
@click.option("--write", is_flag=True, help="Add the entry to the client's file. Nothing else in it changes.")
@click.option("--unchecked", is_flag=True, help="With --write: leave out the `check` before.")
@click.option("--remove", is_flag=True, help="Remove the entry from the client's file. Nothing else in it changes.")
@click.option("--file", "target", type=FILE, metavar="FILE", help="Another file than the client's usual one.")
@click.pass_obj
def connect(
    given: Given,
    /,
    services: tuple[ResourceSettings, ...],
    client_name: str,
    http: bool,
    client_id: str | None,
    key_env: str | None,
    entry_name: str | None,
    token_file: Path | None,
    write: bool,
    unchecked: bool,
    remove: bool,
    target: Path | None,
    **_: Any,
) -> None:
    """Print the entry that makes an MCP client use the gateway, one for each service, or write it to its file."""
    client = CLIENTS[client_name]
    if (write and remove) or (http and token_file is not None):
        fail(
            UNUSABLE, "--write and --remove exclude each other, and so do --http and --token-file, which is for stdio."
        )
    if key_env is not None and (not http or not _VARIABLE.fullmatch(key_env)):
        fail(UNUSABLE, "--key-env needs --http, and the name of a variable such as GATEWAY_KEY, never the key itself.")
    names = _entry_names(services, entry_name)
    file = target or client.file
    if (write or remove) and file is None:
        fail(UNUSABLE, f"--{'remove' if remove else 'write'} needs --client, or --file with the client's file.")
    if not (http or remove):
        _check_left_out(given)
    try:
        ways = ((name, () if http else _command(given, one, token_file), one.resource) for name, one in names.items())
        entries = {
            name: client.entry(command, url if http else None, client_id, key_env) for name, command, url in ways
        }
    except NotAdded as error:
        fail(UNUSABLE, f"{error}.")
    if file is not None and (write or remove):
        for name, service in names.items():
            # With auth.mode: off stdio shows the token to the service, and check would look for an issuer of it.
            if write and not unchecked and (token_file is None or service.auth.traits.authenticates):
                click.echo(f"{name}: {_checked(_command(given, service, token_file, 'check'))}", err=True)
            _change(client, file, name, None if remove else entries[name], service, name == entry_name)
        return
    click.echo(client.render(entries), nl=False)
    where = file or "the client's file"
    login = " Where clients cannot register themselves, give --client-id." if http and not client_id else ""
    click.echo(f"Add this to {where}" + (", or run it again with --write." if file else ".") + login, err=True)


def _checked(command: Sequence[str]) -> str:
    """Return what `check` says of the service. Its entry is written all the same: it may be started later."""
    ran = subprocess.run([*command, "--json"], capture_output=True, check=False)  # noqa: S603, this program
    try:
        (found,) = jsonrpc.decode(ran.stdout)["services"]
    except (ValueError, LookupError):
        return ran.stderr.decode(errors="replace").strip()
    if (failure := found["failure"]) is None:
        count = len(found["tools"])  # none where a token is required and none was given
        return f"checked, {count} tool{'s' * (count != 1)}." if count else "checked."
    said = (failure["cause"], failure["next"]) if failure["cause"] else failure["lines"]
    return f"checked, and it cannot be used yet. {' '.join(said)}"


def _entry_names(services: Sequence[ResourceSettings], given: str | None) -> dict[str, ResourceSettings]:
    """Return the services by the names of their entries. Ends the program where one cannot be used."""
    if given and len(services) > 1:
        fail(UNUSABLE, f"--entry {given}: there are several services. Choose one with --service.")
    names = {given or _name_of(service): service for service in services}
    for name in names:
        if not _NAME.fullmatch(name):
            fail(UNUSABLE, f"--entry {name}: use at most 64 letters, digits, hyphens and underscores.")
    return names


def _change(
    client: Client, file: Path, name: str, entry: Entry | None, service: ResourceSettings, is_named: bool
) -> None:
    """Write an entry to the client's file, or remove it for None, and say so. ``is_named``: the operator named it."""
    try:
        changed = change_entry(client, file, name, entry, lambda old: _is_ours(old, service, is_named))
    except (NotAdded, OSError) as error:
        reason = f"{file}: {error.strerror}" if isinstance(error, OSError) else str(error)
        by_hand = () if entry is None else ("The entry to add by hand:", client.render({name: entry}))
        whose = f" for --service {service.name}" if service.name else ""
        fail(UNUSABLE, f"Nothing is written{whose}: {reason}.", *by_hand)
    state = f"has {'no' if entry is None else 'the'} entry {name}"
    click.echo(f"{file} {'' if changed else 'already '}{state}. {client.then if changed or entry else _OTHER}".rstrip())


def _name_of(service: ResourceSettings) -> str:
    """Return the service's name; without one, the first part of its host, if that is a word."""
    host = urlsplit(service.services[0].backend.url).hostname or ""
    first = host.partition(".")[0]
    plain = first.isdigit() or ":" in host or first in ("", "localhost")
    return service.name or ("gateway" if plain else first)


def _command(given: Given, service: ResourceSettings, token_file: Path | None, name: str = "stdio") -> tuple[str, ...]:
    """Return what a client starts. It starts it in any folder, so every path is absolute."""
    folder = Path.cwd()
    options: list[str] = [] if given.url is None else [given.url]
    if given.file is not None:
        options += ["--config", str(given.file.absolute())]
    for override in given.overrides:
        options += ["--set", _with_absolute_files(override, folder)]
    if service.name:
        options += ["--service", service.name]
    if token_file is not None:
        options += ["--token-file", str(token_file.absolute())]
    return (*program(), name, *options)


def _with_absolute_files(override: str, folder: Path) -> str:
    """Return what --set says, with absolute names of files. A section that has one is written as JSON."""
    override = _FILE_REFERENCE.sub(lambda match: f"${{file:{folder / match[1]}}}", override)
    path, value = _parsed(override)
    changed = with_absolute_files(value, path, folder)
    if changed == value:
        return override
    return f"{'.'.join(path)}={changed if isinstance(changed, str) else jsonrpc.encode(changed).decode()}"


def _parsed(override: str) -> tuple[tuple[str, ...], Any]:
    """Return the path and the value of --set, with its references as they are."""
    dotted, _, text = override.partition("=")
    knob = find_knob(path := tuple(dotted.split(".")))
    return path, text if knob is not None and knob.is_text else read_yaml_with_references(text, dotted)


def _check_left_out(given: Given) -> None:
    """End the program where a secret would stand in the entry; name what the environment has and the entry lacks."""
    if given.url is not None and secrets_in(given.url):
        fail(UNUSABLE, "The URL has what looks like a token, which does not belong in a client's file. Write "
                       "backend.url: 'https://…${file:/path/to/token}…' in a configuration file.")  # fmt: skip
    for override in given.overrides:
        for secret in _secrets_below(*_parsed(override)):
            name = ".".join(map(str, secret))
            fail(UNUSABLE, f"--set {name}: a secret does not belong in a client's file. Write --set "
                           f"'{name}=${{file:/path/to/secret}}', or use a configuration file.")  # fmt: skip
    names = [name for name in sorted(os.environ) if name.startswith(ENVIRONMENT_PREFIX)]
    if names:
        click.echo(f"Warning: the entry does not have what the environment sets here: {', '.join(names)}", err=True)


def _secrets_below(path: Sequence[str | int], value: Any) -> Iterator[Sequence[str | int]]:
    """Yield the path of each secret in the value of a knob; references and templates of one name are none."""
    knob = find_knob(path)
    is_address = knob is not None and knob.path[-1] == "url"
    if knob is not None and (knob.is_secret or is_address):
        for text in texts_in(value):
            names = [f"{{{name}}}" for name in names_in(text)]
            if "${" not in text and (bool(secrets_in(text)) if is_address else text not in names):
                yield knob.path
    elif isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _secrets_below((*path, key), child)


def _is_ours(old: Entry, service: ResourceSettings, is_named: bool) -> bool:
    """Return whether this command wrote an entry: it starts this program, or has the service's URL. Host and port may
    differ in a plain one that the operator names: what is sent to a stranger's must not be sent to another host."""
    command, args, url = old.get("command"), old.get("args"), old.get("url", old.get("httpUrl"))
    words = [command, *(args if isinstance(args, list) else [])]
    starts = isinstance(command, str) and (Path(command).stem == COMMAND or words[1:3] == ["-m", "gateway"])
    if not isinstance(url, str):
        return starts and "stdio" in words
    is_plain = old.keys() <= {"url", "httpUrl", "type", "oauth", "auth"}
    return url == service.resource or (is_named and is_plain and urlsplit(url).path == urlsplit(service.resource).path)
