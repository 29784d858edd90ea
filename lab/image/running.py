"""Run a program in the unpacked image as a container does: its root read-only, its user a number, nothing of this
machine but the network of loopback, ``/dev`` and what is mounted.

There is no container runtime in this: ``unshare`` gives the process mounts of its own, and ``chroot`` its root.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lab.image.builder import layers

_SCRIPT: Final = """
set -eu
root=$1 config=$2 user=$3; shift 3
mount --bind "$root" "$root"
mkdir -p "$root/etc/gateway"
mount --bind "$config" "$root/etc/gateway"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -o remount,bind,ro "$root"
mount -t tmpfs -o size=16m,mode=1777,noexec,nosuid,nodev tmpfs "$root/tmp"
exec chroot --userspec="$user:$user" "$root" "$@"
"""


class Container:
    """An image that was unpacked into ``root``, with ``config`` at /etc/gateway, run by the user ``user``."""

    def __init__(self, image: Mapping[str, Any], root: Path, config: Path, user: int) -> None:
        assert layers(dict(image))
        self._config: Mapping[str, Any] = image["Docker"]["config"]
        self._start = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _SCRIPT, "sh"]
        self._start += [str(root), str(config), str(user), "/usr/bin/env", "-i", *self._config["Env"]]

    @property
    def user(self) -> str:
        return str(self._config["User"])

    @property
    def health_command(self) -> list[str]:
        """The command of HEALTHCHECK."""
        kind, *command = self._config["Healthcheck"]["Test"]
        assert kind == "CMD", kind
        return list(command)

    def serve(self, environment: Mapping[str, str], output: Path) -> subprocess.Popen[bytes]:
        """Start ENTRYPOINT and CMD. The process that is returned is the gateway's own: it can be sent a signal."""
        command = [*self._config["Entrypoint"], *self._config["Cmd"]]
        with output.open("wb") as file:
            return subprocess.Popen(self._command(environment, command), stdout=file, stderr=subprocess.STDOUT)

    def run(self, *command: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, for at most 30 s."""
        whole = self._command(environment or {}, command)
        return subprocess.run(whole, capture_output=True, text=True, timeout=30, check=False)

    def _command(self, environment: Mapping[str, str], command: Sequence[str]) -> list[str]:
        return [*self._start, *(f"{name}={value}" for name, value in environment.items()), *command]
