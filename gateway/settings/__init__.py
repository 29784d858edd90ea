"""Define every knob: default, bounds, unit, help text. Docstrings of sections are descriptions in the JSON Schema."""

import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import ConfigDict, ValidationInfo, field_validator, model_validator

from gateway.settings.auth import Auth, Issuer
from gateway.settings.backend import Backend, Credentials, ListingCredentials, ListingSettings, Params
from gateway.settings.catalog import CatalogSettings, ToolOverride
from gateway.settings.custom import CustomListing
from gateway.settings.groups import GroupSections, GroupSettings
from gateway.settings.knobs import NAME_PATTERN, Section, checked, is_loopback, knob
from gateway.settings.mcp import Mcp
from gateway.settings.sending import Send
from gateway.settings.server import Limits, ServerSettings, Telemetry
from gateway.settings.services import (
    INHERITED,
    ResourceSettings,
    ServiceName,
    ServiceSections,
    ServiceSettings,
    inherit,
)
from gateway.settings.store import StoreSettings

_NO_SERVICE: Final = (
    "must name at least one service, {crm: {backend: {url: https://crm.example.com/jsonrpc}}}; or leave it out, for "
    "one service whose sections stand at the top level"
)


class Settings(Section):
    """The whole configuration: the settings of the process, and of one service at the root or several by name.

    With ``services`` the top level has no backend, and its other sections are defaults: read them through ``by_mount``.
    """

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["backend"]}, {"required": ["services"]}]})

    server: ServerSettings = knob(
        ServerSettings, "Addresses and ports of the gateway, and bounds of the whole process."
    )
    store: StoreSettings = knob(StoreSettings, "Store of what outlives a reload, and what replicas share.")
    telemetry: Telemetry = knob(Telemetry, "Reports of the gateway about itself.")
    services: Annotated[dict[ServiceName, ServiceSections], checked(bool, _NO_SERVICE)] = knob(
        dict,
        "Several services by name, each with the sections backend, catalog, auth, limits and mcp. The service crm is "
        "at /crm/mcp. At the top level, catalog, auth, limits and mcp are then defaults for each service: maps merge, "
        "lists replace. Absent: the top level is one service, at /mcp.",
        validate_default=False,
        json_schema_extra={"minProperties": 1, "propertyNames": {"pattern": f"^{NAME_PATTERN}$"}},
    )
    groups: dict[ServiceName, GroupSections] = knob(
        dict,
        "Several services at one address, by name: {all: {services: [crm, shop]}}. The group all is at /all/mcp, and "
        "crm.books.get is its tool for books.get of the service crm. auth, limits, mcp and catalog.search of the top "
        "level are defaults for each group.",
        validate_default=False,
        json_schema_extra={"propertyNames": {"pattern": f"^{NAME_PATTERN}$"}},
    )
    backend: Backend | None = knob(
        None, "The JSON-RPC service behind the gateway. With services, each of them has its own backend instead."
    )
    catalog: CatalogSettings = knob(CatalogSettings, "Which methods become tools.")
    auth: Auth = knob(Auth, "Who may call.")
    limits: Limits = knob(Limits, "Who may do how much.")
    mcp: Mcp = knob(Mcp, "The Model Context Protocol.")

    @property
    def by_mount(self) -> Mapping[str, ServiceSettings]:
        """Return each service's settings by the prefix of its paths (``/crm``, "" at the root), in the file's order."""
        sections = {name: dict(service) for name, service in self.services.items()}
        root = {"": {name: getattr(self, name) for name in ServiceSections.model_fields}}
        server = self.server
        services = [ServiceSettings(name=name, server=server, **given) for name, given in (sections or root).items()]
        return {service.mount: service for service in services}

    @property
    def groups_by_mount(self) -> Mapping[str, GroupSettings]:
        """Return each group's settings by the prefix of its paths. Its tools are shown as the top level says."""
        services = tuple(self.by_mount.values()) if self.groups else ()
        groups = [
            GroupSettings(
                name=name, server=self.server, auth=group.auth, limits=group.limits, mcp=group.mcp,
                catalog=self.catalog.model_copy(update={"search": group.catalog.search}),
                members=group.members(services),
            )
            for name, group in self.groups.items()
        ]  # fmt: skip
        return {group.mount: group for group in groups}

    @property
    def resources(self) -> tuple[ResourceSettings, ...]:
        """Return the settings of all services and groups."""
        return *self.by_mount.values(), *self.groups_by_mount.values()

    @model_validator(mode="before")
    @classmethod
    def _inherit(cls, tree: Any) -> Any:
        if not isinstance(tree, dict):
            return tree
        if "services" not in tree:
            # {}, so that the fault is backend.url
            return tree if tree.get("backend") is not None else tree | {"backend": {}}
        if not isinstance(tree["services"], dict):
            return tree
        defaults = {name: tree[name] for name in INHERITED if name in tree}
        found = {"services": {name: inherit(defaults, own) for name, own in tree["services"].items()}}
        if isinstance(tree.get("groups"), dict):
            catalog = defaults.pop("catalog", None)
            if isinstance(catalog, dict) and "search" in catalog:
                defaults["catalog"] = {"search": catalog["search"]}
            found["groups"] = {name: inherit(defaults, own) for name, own in tree["groups"].items()}
        return tree | found

    @field_validator("backend", mode="before")
    @classmethod
    def _check_backend(cls, backend: Any, info: ValidationInfo) -> Any:
        services = info.data.get("services", ("…",))  # pydantic leaves out what is faulty
        if backend is None or not services:
            return backend
        place = f"services.{next(iter(services))}.backend"
        raise ValueError(
            f"cannot stand beside services: move it to {place} (in the environment "
            f"GATEWAY__{place.replace('.', '__').upper()}__URL), or leave services out"
        )

    def conflict(self) -> str:
        """Return a line for each fault of a service, of a group, of the store, and of the workers."""
        faults = [fault for one in self.resources for fault in one.faults()]
        for name, group in self.groups.items():
            if name in self.services:
                faults.append(f"groups.{name}: is the name of a service: give the group another one")
            faults += group.faults(f"groups.{name}.services", [*self.services])
        if self.store.is_shared and self.server.secret_file is None:
            faults.append(
                "store.url: replicas that share a store must also share a secret: name its file in server.secret_file, "
                "made with: openssl rand -hex 32"
            )
        faults += worker_faults(self, sys.platform)
        return "\n".join(dict.fromkeys(faults))


def worker_faults(settings: Settings, platform: str) -> Iterator[str]:
    """Yield why several workers cannot serve on ``platform`` (:data:`sys.platform`) with the store of ``settings``."""
    if settings.server.workers == 1:
        return
    if platform != "linux":
        yield (
            "server.workers: several need Linux, which gives each of them its part of the connections: set it to 1. "
            "Elsewhere start several gateways, each on a port of its own, behind a proxy"
        )
    if not settings.store.is_shared:
        yield (
            "server.workers: several need a store that they share: set store.url to redis://host:6379/0, or "
            "server.workers to 1"
        )
