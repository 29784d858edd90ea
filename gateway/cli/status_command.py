"""The command ``status``: show a running gateway, as its admin port tells."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, Final

import click

from gateway.cli.health_command import NoAdminPort, admin_url, ask
from gateway.cli.options import FAILED, fail
from gateway.config.strict_yaml import read_yaml
from gateway.telemetry.figures import Samples, ServiceFigures, read_samples, service_figures
from gateway.text import printable

_INTERVAL: Final = 2.0
_PATIENCE: Final = 5.0
_COLUMNS: Final = (
    "SERVICE", "STATE", "TOOLS", "AGE", "CALLS/MIN", "P50", "P99", "FAILED", "REFUSED", "QUEUE", "BREAKER", "AT LIMIT"
)  # fmt: skip


@click.command()
@click.argument("url", required=False)
@click.option("--config", "file", type=click.Path(path_type=Path), metavar="FILE",
              help="YAML file that names server.admin_host and server.admin_port, where there is no URL.")  # fmt: skip
@click.option("--watch", is_flag=True, help="Show it again every 2 s, with the rates of these, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print /status, and the figures of each service, as JSON.")
def status(url: str | None, file: Path | None, watch: bool, as_json: bool) -> None:
    """Show a running gateway: its services with state, tools, calls, failures and limits; its store and workers."""
    place = url or _configured(file)
    before: Samples = {}
    try:
        while True:
            started = time.monotonic()
            state, samples = _read(place)
            seconds = _INTERVAL if before else _uptime(samples)
            figures = service_figures(samples, before, [one["name"] for one in _services(state)])
            if as_json:
                click.echo(json.dumps({**state, "figures": {name: _plain(one) for name, one in figures.items()}}))
            else:
                if watch:
                    click.clear()
                click.echo("\n".join(_page(place, state, samples, figures, seconds, since_start=not before)))
            if not watch:
                return
            before = samples
            time.sleep(max(0.0, _INTERVAL - (time.monotonic() - started)))
    except NoAdminPort as error:
        fail(FAILED, str(error))
    except KeyboardInterrupt:
        return


def _configured(file: Path | None) -> str:
    """Return the address that a configuration names. The file may be one that the gateway refuses just now."""
    path = Path(file or os.environ.get("GATEWAY_CONFIG") or "gateway.yaml")
    path = path / "gateway.yaml" if path.is_dir() else path
    try:
        server = read_yaml(path.read_text(encoding="utf-8"), str(path)).get("server", {})
        return admin_url(str(server.get("admin_host") or ""), server.get("admin_port"))
    except (OSError, ValueError, AttributeError) as error:
        if file is not None:
            reason = getattr(error, "strerror", None) or error
            fail(FAILED, f"{file}: {reason}. Name the admin port instead: status URL")
        return admin_url()


def _read(url: str) -> tuple[dict[str, Any], Samples]:
    """Return what /status and /metrics say. Raise :class:`NoAdminPort`."""
    base = url.removesuffix("/").removesuffix("/status")
    code, body = ask(base, "/status", _PATIENCE)
    try:
        state = json.loads(body)
        state["processes"], state["unready"]
        _, metrics = ask(base, "/metrics", _PATIENCE)
        return state, read_samples(metrics.decode())
    except (ValueError, TypeError, KeyError):
        raise NoAdminPort(
            f"{url} answers (HTTP {code}), but is not the admin port of a gateway. It is not the public "
            "port: name server.admin_port"
        ) from None


def _services(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the services, each once: of several workers, the first that has problems speaks for all."""
    found: dict[str, dict[str, Any]] = {}
    for process in state["processes"]:
        for one in process["services"]:
            known = found.setdefault(one["name"], one)
            if one["problems"] and not known["problems"]:
                found[one["name"]] = one
    return list(found.values())


def _plain(figures: ServiceFigures) -> dict[str, Any]:
    """Return the figures as JSON, which has no infinity."""
    names = ("calls", "failed", "refused", "queue", "breaker_open", "p50", "p99")
    return {name: None if (value := getattr(figures, name)) == inf else value for name in names}


def _page(
    place: str, state: Mapping[str, Any], samples: Samples, figures: Mapping[str, ServiceFigures], seconds: float,
    *, since_start: bool,
) -> Iterator[str]:  # fmt: skip
    ready = state["unready"]
    rates = "since the start" if since_start else f"of the last {seconds:.0f} s"
    words = "ready" if ready is None else f"not ready: {printable(ready)}"
    yield f"{place}  {words}  up {_span(_uptime(samples))}  {rates}"
    yield from ("  ".join(_process_words(state, samples)), "")
    rows = [_COLUMNS, *(_row(one, figures[one["name"]], seconds) for one in _services(state))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    if problems := [*_problems(state)]:
        yield from ("", *problems)


def _process_words(state: Mapping[str, Any], samples: Samples) -> Iterator[str]:
    available = samples.get(("mcp_gateway_store_available", ()))
    workers = [process for process in state["processes"] if process["worker"]]
    yield f"store {'unavailable' if available == 0 else 'available'}"
    if workers:
        yield f"workers {sum(process['unready'] is None for process in workers)} of {len(workers)}"
    under_way = [process["under_way"] for process in state["processes"]]
    for what in ("calls", "streams"):
        yield f"{what} {sum(one.get(what, 0) for one in under_way)}"
    for words, name in (("connections", "connections_open"), ("log lines lost", "log_lines_lost_total")):
        value = samples.get((f"mcp_gateway_{name}", ()))
        if value is not None:
            yield f"{words} {value:.0f}"


def _row(service: Mapping[str, Any], figures: ServiceFigures, seconds: float) -> Sequence[str]:
    age, tools = service["listing_age"], service["tools"]
    return (
        service["name"] or "/",
        "problem" if service["problems"] else "ok",
        "-" if tools is None else f"{tools}",
        "-" if age is None else _span(age),
        f"{60 * figures.calls / seconds:.1f}" if seconds else "-",
        _milliseconds(figures.p50),
        _milliseconds(figures.p99),
        f"{figures.failed:.0f}",
        f"{figures.refused:.0f}",
        f"{figures.queue:.0f}",
        "open" if figures.breaker_open else "closed",
        f"{service.get('callers_at_limit', 0)}",
    )


def _problems(state: Mapping[str, Any]) -> Iterator[str]:
    """Return each problem once, with what to do where that is known. A stranger's words may be in it."""
    said: dict[str, None] = {}
    for part in (part for process in state["processes"] for part in (*process["services"], process)):
        for one in part["problems"]:
            name = f"{part['name']}: " if part.get("name") else ""
            known = one.get("diagnosis")
            remedy = f" {known['cause']} {known['next']}" if known else ""
            said[printable(f"{name}{one['cause']}, since {one['since']}.{remedy}")] = None
    return iter(said)


def _uptime(samples: Samples) -> float:
    started = samples.get(("mcp_gateway_start_time_seconds", ()))
    return time.time() - started if started else 0.0


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return ">300 s" if seconds == inf else f"{1000 * seconds:.0f} ms"


def _span(seconds: float) -> str:
    """Return a length of time in its largest unit."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
