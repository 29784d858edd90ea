"""The commands check, tools, call, methods, schema, demo and completion."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click
import yaml
from click.shell_completion import get_completion_class
from msgspec import structs

from gateway import jsonrpc
from gateway.catalog.diff import compare_catalogs, read_snapshots, snapshots_of
from gateway.catalog.pins import PinError, write_pins
from gateway.cli import COMMAND, checking, config_reference, report
from gateway.cli.contact import ContactFailed, Work, contact
from gateway.cli.demo import run as run_demo
from gateway.cli.methods_file import render_methods
from gateway.cli.options import FAILED, UNUSABLE, configured, fail, run, with_one_service, with_service, with_token
from gateway.config.source import ConfigError, load_settings
from gateway.mcp.modern import PROJECTOR
from gateway.model import NO_RESULT, Caller, Catalog, NameStyle, Structure, Tool
from gateway.service.resource import Resource
from gateway.service.service import Service
from gateway.settings import ResourceSettings, ServiceSettings, Settings
from gateway.telemetry import logs

_VARIABLE: Final = f"_{COMMAND.upper().replace('-', '_')}_COMPLETE"
_SHELLS: Final = ("bash", "zsh", "fish")
_TRIED: Final = (Structure.BY_NAME, Structure.BY_POSITION, Structure.BY_NAME_IN_LIST)


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell: bash, zsh or fish.

    \b
    bash: eval "$(jsonrpc-mcp-gateway completion bash)"       in ~/.bashrc
    zsh:  eval "$(jsonrpc-mcp-gateway completion zsh)"        in ~/.zshrc
    fish: jsonrpc-mcp-gateway completion fish | source        in ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101, click has these three
    click.echo(kind(context.find_root().command, {}, COMMAND, _VARIABLE).source())


@click.command()
@configured
@with_service
@with_token
@click.option("--json", "as_json", is_flag=True, help="As JSON. docs/checking.md says what is in it.")
@click.option("--agents", is_flag=True, help="Say what would let agents succeed more often, with the YAML to paste.")
def check(
    settings: Settings, services: tuple[ResourceSettings, ...], token: str | None, as_json: bool, agents: bool, **_: Any
) -> None:
    """Contact issuers and backend; print what is accepted, the tools, and what is quarantined and why."""
    logs.configure("traceback", "text")
    raise SystemExit(run(checking.check(settings, services, token, as_json=as_json, agents=agents)))


@click.command()
@configured
@with_one_service
@with_token
@click.option("--json", "as_json", is_flag=True, help="The tools as MCP 2026-07-28 lists them.")
@click.option("--diff", "since", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              help="What changed since FILE: saved --json output, a pin file, or another configuration. "
                   "Ends with 1 where anything did.")  # fmt: skip
@click.option("--pin", is_flag=True, help="Write the tools as they are now to catalog.pin, as reviewed.")
@click.option("--try", "tried", metavar="TOOL", help="Call a tool that is marked read-only in each structure of "
              "params, to find out which it takes.")  # fmt: skip
@click.option("--arg", "pairs", multiple=True, metavar="NAME=VALUE", help="With --try, one argument.")
def tools(
    service: ResourceSettings,
    token: str | None,
    as_json: bool,
    since: Path | None,
    pin: bool,
    tried: str | None,
    pairs: tuple[str, ...],
    **_: Any,
) -> None:
    """List the tools, show what changed, pin them, or try one."""
    if since is not None and pin:
        fail(UNUSABLE, "--diff and --pin exclude each other: review the difference first, then pin.")
    if tried is not None or since is not None or pin:
        if not isinstance(service, ServiceSettings):
            fail(UNUSABLE, f"--diff, --pin and --try are for one service, and {service.name} is a group.")
        if tried is not None:
            return _try(service, token, tried, pairs)
        return _pin(service, token) if since is None else _show_changes(service, since, token)
    catalog = _with_catalog(service, _return_catalog, token)
    name_style = NameStyle(service.catalog.names)
    if as_json:
        projector = PROJECTOR.with_name_style(name_style)
        return click.echo(jsonrpc.pretty({"tools": [projector.project(tool) for tool in catalog.tools]}))
    return report.show_tools(catalog, name_style)


@click.command()
@configured
@with_one_service
@with_token
@click.argument("tool", required=False, metavar="TOOL")
@click.option("--arg", "pairs", multiple=True, metavar="NAME=VALUE", help="One argument; read as its schema says.")
@click.option("--args", "whole", metavar="JSON", help="All arguments as one JSON object.")
def call(
    service: ResourceSettings, token: str | None, tool: str, pairs: tuple[str, ...], whole: str | None, **_: Any
) -> None:
    """Call one tool and print its result."""

    async def work(service: Resource, caller: Caller, _: Catalog) -> Any:
        prepared = await service.invocation.prepare(caller, tool, lambda found: _arguments(found, pairs, whole))
        return await prepared.execute()

    outcome = _with_catalog(service, work, token)
    if outcome.fault is not None:
        fail(FAILED, outcome.fault.message)
    if outcome.value is not NO_RESULT:
        click.echo(outcome.value if isinstance(outcome.value, str) else jsonrpc.pretty(outcome.value))


@click.command()
@configured
@with_one_service
@with_token
def methods(service: ServiceSettings, token: str | None, **_: Any) -> None:
    """Print a methods file of what the service lists, to complete by hand."""

    async def work(service: Service, caller: Caller, catalog: Catalog) -> str:
        offered = frozenset(method.name for method in catalog.quarantined) | {tool.method for tool in catalog.tools}
        return render_methods(service.settings, await service.reader.fetch_listing(caller), offered)

    click.echo(_with_catalog(service, work, token), nl=False)


@click.command()
@click.option("--format", "form", default="json",
              type=click.Choice(["json", "yaml", "methods"]),
              help="JSON Schema; the commented file; the schema of a listing file.")  # fmt: skip
@click.option("--minimal", is_flag=True, help="With --format yaml: a file of 12 lines to begin with.")
def schema(form: str, minimal: bool) -> None:
    """Print the schema of the configuration, or the commented file."""
    if minimal and form != "yaml":
        fail(UNUSABLE, "--minimal needs --format yaml.")
    click.echo(config_reference.STARTER if minimal else config_reference.render(form), nl=False)


@click.command()
@click.option("--port", default=8080, show_default=True, help="Public port; the demo takes a free one if it is in use.")
def demo(port: int) -> None:
    """Start a small JSON-RPC service on loopback, and the gateway in front of it. Needs nothing else."""
    logs.configure("warning", "auto")
    run(run_demo(port))


def _show_changes(service: ServiceSettings, since: Path, token: str | None) -> None:
    """Print what changed since a file was written. Ignores pins, which would hide the changed tools."""
    try:
        before = read_snapshots(since.read_bytes(), str(since))
        if before is None:
            other = _counterpart(service, load_settings(since), since)
            before = snapshots_of(_catalog_without_pins(other, token).tools, NameStyle(other.catalog.names))
    except ConfigError as error:
        fail(UNUSABLE, f"{since} is neither a saved listing, nor a pin file, nor a usable configuration:",
             *(f"  {fault}" for fault in error.faults))  # fmt: skip
    except (PinError, OSError) as error:
        fail(UNUSABLE, str(error))
    after = snapshots_of(_catalog_without_pins(service, token).tools, NameStyle(service.catalog.names))
    found = compare_catalogs(before, after)
    report.say(*report.differences(found))
    if found:
        raise SystemExit(FAILED)


def _try(settings: ServiceSettings, token: str | None, name: str, pairs: tuple[str, ...]) -> None:
    """Call a tool in each structure of params, to find out which its method accepts."""

    async def work(service: Service, caller: Caller, _: Catalog) -> dict[Structure, str | None]:
        call = await service.invocation.prepare(caller, name, lambda found: _arguments(found, pairs, None))
        _check_trial(name, call.tool, call.arguments)
        faults = {}
        for structure in _TRIED:
            binding = replace(call.tool.binding, structure=structure, structure_is_known=True)
            outcome = await structs.replace(call, tool=replace(call.tool, binding=binding)).execute()
            faults[structure] = None if outcome.fault is None else outcome.fault.message
        return faults

    faults = _with_catalog(settings, work, token)
    for structure, fault in faults.items():
        click.echo(f"{structure}: {fault or 'a result'}")
    working = [structure for structure, fault in faults.items() if fault is None]
    if not working:
        fail(FAILED, "The tool works in no structure with these arguments.")
    click.echo(f"Set {settings.knob('backend.params.structure')}: {' or '.join(working)}")


def _check_trial(name: str, tool: Tool, arguments: Mapping[str, Any]) -> None:
    """End the program where calling the tool would show nothing, or may do harm."""
    # A tool may be repeatable because it is idempotent: its first call still changes something.
    if not (tool.binding.repeatable and tool.annotations.get("readOnlyHint") is True):
        fail(UNUSABLE, f"{name} is not marked as read-only. If you know that it is, set "
                       f'catalog.tools."{tool.method}".annotations.readOnlyHint: true')  # fmt: skip
    if not arguments:
        fail(UNUSABLE, f"{name} without arguments is the same in every structure: give some with --arg.")


def _counterpart(service: ServiceSettings, settings: Settings, file: Path) -> ServiceSettings:
    """Return the service of the same name in another configuration, or its only service."""
    others = settings.by_mount
    found = others.get(service.mount) or (next(iter(others.values())) if len(others) == 1 else None)
    if found is None:
        names = ", ".join(other.name for other in others.values())
        fail(UNUSABLE, f"--diff {file}: has the services {names}, and none with the name of this one.")
    return found


def _pin(service: ServiceSettings, token: str | None) -> None:
    file, knob = service.catalog.pin, service.knob("catalog.pin")
    if file is None:
        fail(UNUSABLE, f"{knob} names no file to write the pins to: --set {knob}=tools.pin")
    catalog = _catalog_without_pins(service, token)
    if not catalog.tools:
        fail(FAILED, "There are no tools to pin.")
    try:
        write_pins(Path(file), catalog.tools)
    except OSError as error:
        fail(UNUSABLE, f"{knob}: {file}: {error.strerror}")
    click.echo(f"pinned {len(catalog.tools)} tools in {file}")


def _catalog_without_pins(service: ServiceSettings, token: str | None) -> Catalog:
    knobs = service.catalog.model_copy(update={"pin": None})
    catalog: Catalog = _with_catalog(replace(service, catalog=knobs), _return_catalog, token)
    return catalog


async def _return_catalog(_: Resource, __: Caller, catalog: Catalog) -> Catalog:
    return catalog


def _with_catalog(service: ResourceSettings, work: Work, token: str | None = None) -> Any:
    """Return what :func:`contact` does. A failure ends the program with a message and an exit code."""
    logs.configure("traceback", "text")
    try:
        return run(contact(service, work, token))
    except ContactFailed as failure:
        fail(failure.code, *failure.lines)


def _arguments(tool: Tool, pairs: tuple[str, ...], whole: str | None) -> dict[str, Any]:
    """Return the arguments of --args, with those of --arg added. Ends the program where they cannot be read."""
    try:
        arguments = {} if whole is None else jsonrpc.decode(whole.encode())
    except ValueError as error:
        fail(UNUSABLE, f"--args is not JSON, such as '{{\"name\": 1}}': {error}")
    arguments = {} if arguments is None else arguments
    if not isinstance(arguments, dict):
        fail(UNUSABLE, "--args must be a JSON object")
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            fail(UNUSABLE, f"--arg {pair}: must be NAME=VALUE")
        schema = tool.input_schema.get("properties", {}).get(name, {})
        try:
            arguments[name] = text if schema.get("type") == "string" else yaml.safe_load(text)
        except yaml.YAMLError:
            fail(UNUSABLE, f"--arg {name}: the value is neither plain text nor JSON; use --args with one JSON object")
    return arguments
