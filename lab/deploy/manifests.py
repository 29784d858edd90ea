"""Read what kustomize renders, as Kubernetes does: a container's command, its environment, its volumes, its probes.

``Table`` is all that differs here from a container: where its paths stand, and which port is free for each of its own.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.dockerfile import instructions, only
from tests.kustomize import rendered

PREFIX: Final = "/opt/gateway"
"""Where the image has its virtual environment."""
PORTS: Final = {"http": "GATEWAY__SERVER__PORT", "admin": "GATEWAY__SERVER__ADMIN_PORT"}
"""The variable that names each port of the container. A pod has an address of its own, so no manifest sets them."""


@dataclass(frozen=True)
class Table:
    """Map the container's paths to folders of this machine, and the names of its ports to free ports."""

    paths: Mapping[str, Path]
    ports: Mapping[str, int]

    def map(self, text: str) -> str:
        """Replace each of the paths where it stands as a whole, or begins one."""
        longest = sorted(self.paths, key=len, reverse=True)
        known = "|".join(map(re.escape, longest))
        return re.sub(rf"(?<![\w./-])({known})(?![\w-])", lambda found: str(self.paths[found[1]]), text)

    def variables(self) -> dict[str, str]:
        return {PORTS[name]: str(port) for name, port in self.ports.items()}


@dataclass(frozen=True)
class Image:
    """What deploy/Dockerfile says of the container, and ``prefix``, the virtual environment that stands for its own."""

    prefix: Path

    @property
    def command(self) -> list[str]:
        words: list[str] = json.loads(only(instructions()[-1], "ENTRYPOINT"))
        return words

    @property
    def arguments(self) -> list[str]:
        words: list[str] = json.loads(only(instructions()[-1], "CMD"))
        return words

    @property
    def environment(self) -> dict[str, str]:
        pairs = (word.partition("=") for word in shlex.split(only(instructions()[-1], "ENV")))
        return {name: value.replace("${PATH}", os.defpath) for name, _, value in pairs}


@dataclass(frozen=True)
class Manifests:
    """What an overlay comes to."""

    deployment: Mapping[str, Any]
    service: Mapping[str, Any]
    route: Mapping[str, Any]
    configs: Mapping[str, Mapping[str, str]]
    """The contents of each ConfigMap, by name."""

    @classmethod
    def of(cls, folder: Path) -> Manifests:
        """Render a folder."""
        resources = rendered(folder)
        (deployment,) = [one for one in resources if one["kind"] == "Deployment"]
        (service,) = [one for one in resources if one["kind"] == "Service"]
        (route,) = [one for one in resources if one["kind"] == "HTTPRoute"]
        configs = {one["metadata"]["name"]: one["data"] for one in resources if one["kind"] == "ConfigMap"}
        return cls(deployment, service, route, configs)

    @property
    def pod(self) -> Mapping[str, Any]:
        spec: Mapping[str, Any] = self.deployment["spec"]["template"]["spec"]
        return spec

    @property
    def container(self) -> Mapping[str, Any]:
        (container,) = self.pod["containers"]
        return dict(container)

    @property
    def served_port(self) -> str:
        """The name of the container's port to which the route leads, by way of the Service."""
        ((backend,),) = [rule["backendRefs"] for rule in self.route["spec"]["rules"]]
        assert backend["name"] == self.service["metadata"]["name"]
        (port,) = [port for port in self.service["spec"]["ports"] if port["port"] == backend["port"]]
        labels = self.deployment["spec"]["template"]["metadata"]["labels"]
        assert self.service["spec"]["selector"].items() <= labels.items()
        return str(port["targetPort"])

    @property
    def hosts(self) -> list[str]:
        hosts: list[str] = self.route["spec"]["hostnames"]
        return hosts

    def volumes(self) -> dict[str, tuple[str, str, int]]:
        """Return what is mounted, by path: ``configMap``, ``secret`` or ``emptyDir``, its name, and the files' mode."""
        sources = {}
        for volume in self.pod["volumes"]:
            (kind,) = volume.keys() - {"name"}
            source = volume[kind]
            sources[volume["name"]] = (kind, source.get("name") or source.get("secretName", ""), _mode(source))
        return {mount["mountPath"]: sources[mount["name"]] for mount in self.container["volumeMounts"]}

    def command(self, image: Image) -> list[str]:
        """Return the process's words: the manifest's, or else the image's, with ``$(NAME)`` expanded."""
        environ = self.environment(image)
        own = "command" in self.container
        words = [*self.container.get("command", image.command)]
        words += self.container.get("args", [] if own else image.arguments)
        return [_expand(word, environ) for word in words]

    def environment(self, image: Image) -> dict[str, str]:
        """Return the image's variables, and over them the container's. Each may name those before it as ``$(NAME)``."""
        environ = image.environment
        for variable in self.container["env"]:
            environ[variable["name"]] = _expand(variable["value"], environ)
        return environ

    def port_of(self, probe: Mapping[str, Any]) -> str:
        """Return the name of the port that a probe asks."""
        asked = probe["httpGet"]["port"]
        (name,) = [one["name"] for one in self.container["ports"] if asked in (one["name"], one["containerPort"])]
        return str(name)


def _mode(source: Mapping[str, Any]) -> int:
    mode = source.get("defaultMode", 0o644)
    return int(mode, 8) if isinstance(mode, str) else int(mode)


def _expand(text: str, environ: Mapping[str, str]) -> str:
    """Expand ``$(NAME)``. A name that is not known stays as it is, and ``$$`` is a ``$`` (Kubernetes, "Dependent
    environment variables")."""

    def expand(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else environ.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([\w.-]+)\)", expand, text)
