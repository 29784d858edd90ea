"""The command ``serve``: one process, or the parent of several, or one of several."""

import asyncio
import errno
import os
import sys

import click

from gateway.cli import report
from gateway.cli.options import UNUSABLE, Given, configured, fail, run
from gateway.config.source import ConfigError, ConfigSource
from gateway.process import parent, serving
from gateway.process.link import NotAWorker, inherit
from gateway.settings import Settings
from gateway.signing import SecretError
from gateway.telemetry import logs


@click.command()
@configured
@click.pass_obj
def serve(given: Given, /, settings: Settings, source: ConfigSource) -> None:
    """Serve MCP on /mcp and REST on /mcp/tools until SIGTERM."""
    server, level = settings.server, settings.telemetry.log.level

    def guide(port: int) -> None:
        report.guide(settings, port, given)

    try:
        inheritance = inherit(os.environ)
        if inheritance is not None:
            logs.configure(level, worker=inheritance.number)
            run(serving.serve(settings, source, inheritance=inheritance))
        elif server.workers > 1:
            logs.configure(level)
            # The command line that started this process. It does no work that would need a faster loop.
            code = asyncio.run(parent.serve(settings, (sys.executable, *sys.orig_argv[1:]), guide))
            raise SystemExit(code)
        else:
            logs.configure(level)
            run(serving.serve(settings, source, guide))
    except (ConfigError, SecretError, NotAWorker) as error:
        fail(UNUSABLE, str(error))
    except OSError as error:
        place, _, reason = (error.strerror or str(error)).rpartition(": ")
        side = "admin_" if place.endswith(f" port {server.admin_port}") else ""
        taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
        remedy = "port to a free one" if taken else "host to an address of this machine"
        fail(UNUSABLE, f"Cannot listen on {place}: {reason}", f"Set server.{side}{remedy}.")
