"""The components of deploy/ combine: what they render is valid, and selects and mounts what is its own.

By day, these are as many pairs as it takes for each kind of change to meet each other; in `make lint-deploy` all.
"""

from __future__ import annotations

import copy
import functools
import itertools
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import yaml

from gateway.config.source import load_settings
from gateway.credentials import credential_modes
from gateway.settings import Settings
from gateway.telemetry.families import FAMILIES
from tests.extent import ALL_CASES
from tests.kustomize import faults_of_others, rendered
from tests.kustomize.pairs import enough, kinds, meetings
from tests.unit.test_deploy import OLDEST_KUBERNETES

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
COMPONENTS: Final = {
    **{folder.name: f"../kubernetes/components/{folder.name}" for folder in DEPLOY.glob("kubernetes/components/*")},
    "monitoring": "../monitoring",
}
EXCLUSIVE: Final = [
    {"high-availability", "high-availability-keda"},
    {"high-availability", "sidecar"},
    {"high-availability-keda", "sidecar"},
    {"high-availability", "sidecar-unix"},
    {"high-availability-keda", "sidecar-unix"},
    {"sidecar", "sidecar-unix"},
]
"""Those that make no sense together: docs/kubernetes.md says so."""
ORDER: Final = sorted(COMPONENTS, key=lambda name: (name == "several-services", name))
PAIRS: Final = [pair for pair in itertools.combinations(ORDER, 2) if set(pair) not in EXCLUSIVE]
MADE: Final = {name: kinds(DEPLOY / "kubernetes" / path) for name, path in COMPONENTS.items()}
FEW: Final = enough(PAIRS, MADE)
MANY: Final = [
    name for name in ORDER if name not in ("high-availability", "sidecar", "sidecar-unix", "unauthenticated")
]
"""As many as go together, with authentication."""
OVERLAYS: Final = ("drupal", "one-service", "twelve-services-ha")
SEVERAL: Final = """
services:
  crm: {backend: {url: http://127.0.0.1:8000/, credentials: {backend_audience: AUDIENCE}}}
"""
VERSIONS: Final = [OLDEST_KUBERNETES, "1.33", kubernetes_validate.latest_version()]
NAME: Final = "shop-jsonrpc-mcp-gateway"
OWN: Final = ("PodMonitor", "PrometheusRule", "HTTPRoute", "Certificate", "ScaledObject")
"""Kinds that operators add, of which Kubernetes itself has no schema."""
FINISHED: Final = [*OVERLAYS, *(f"components/{name}" for name in ORDER)]
VALID: Final = [
    (name, version)
    for number, name in enumerate(FINISHED)
    for version in (VERSIONS if ALL_CASES else [VERSIONS[number % len(VERSIONS)]])
]
"""What is rendered, and for which version of Kubernetes: by day each for one."""
INSTANCE: Final = "app.kubernetes.io/instance"

Resources: TypeAlias = list[dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deploy")
    shutil.copytree(DEPLOY, folder, dirs_exist_ok=True)
    return folder


def combined(folder: Path, *components: str, prefix: str = "shop-") -> Resources:
    """What an overlay with a prefix renders."""
    mine = folder / "-".join((f"{prefix}of", *components))
    mine.mkdir(exist_ok=True)
    paths = [COMPONENTS[component] for component in components]
    text = yaml.safe_dump(
        {"namespace": "mcp", "namePrefix": prefix, "resources": ["../kubernetes/base"], "components": paths}
    )
    (mine / "kustomization.yaml").write_text(text)
    return once(mine)


def once(overlay: Path) -> Resources:
    """What an overlay renders, which kubectl is asked once."""
    return copy.deepcopy(_rendered(overlay))


_rendered: Final = functools.cache(rendered)


def only(resources: Resources, kind: str) -> dict[str, Any]:
    (found,) = [resource for resource in resources if resource["kind"] == kind]
    return found


def selected(value: Any) -> Iterator[str]:
    """Each instance that a selector or a label names, wherever it stands."""
    if isinstance(value, dict):
        yield from (text for key, text in value.items() if key == INSTANCE)
        for child in value.values():
            yield from selected(child)
    elif isinstance(value, list):
        for child in value:
            yield from selected(child)


def pod_of(resources: Resources) -> tuple[dict[str, Any], dict[str, Any]]:
    """The pod, and the gateway's container in it."""
    pod = only(resources, "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return pod, container


def settings_of(resources: Resources, folder: Path, services: str = "") -> Settings:
    """What the gateway loads of the pod: its file, or ``services`` in its place, environment and secrets."""
    pod, container = pod_of(resources)
    maps = {one["metadata"]["name"]: one["data"] for one in resources if one["kind"] == "ConfigMap"}
    (config,) = [volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume]
    environ = {variable["name"]: variable["value"] for variable in container["env"]}
    for variable in [name for name in environ if name.endswith("_FILE")]:
        secret = folder / variable
        secret.write_text("0123456789abcdef" * 4)
        environ[variable] = str(secret)
    file = folder / "gateway.yaml"
    file.write_text(services or maps[config]["gateway.yaml"])
    return load_settings(file, environ=environ)


def test_few_pairs_are_enough_for_each_kind_of_change_to_meet_each_other() -> None:
    assert meetings(FEW, MADE) == meetings(PAIRS, MADE)
    assert len(FEW) < len(PAIRS) / 4


@pytest.mark.parametrize("together", [*((name,) for name in ORDER), *(PAIRS if ALL_CASES else FEW), MANY], ids="+".join)
def test_components_render_valid_resources_of_this_gateway_alone(
    folder: Path, together: Sequence[str], tmp_path: Path
) -> None:
    resources = combined(folder, *together)
    assert {name for resource in resources for name in selected(resource)} == {NAME}
    for resource in resources:
        assert resource["metadata"]["namespace"] == "mcp"
        assert resource["metadata"]["name"].startswith("shop-")
        if resource["kind"] not in OWN:
            kubernetes_validate.validate(resource, OLDEST_KUBERNETES, strict=True)
    pod, container = pod_of(resources)
    mounts = [mount["name"] for one in (container, *pod.get("initContainers", ())) for mount in one["volumeMounts"]]
    assert set(mounts) == {volume["name"] for volume in pod["volumes"]}
    names = [variable["name"] for variable in container["env"]]
    assert len(names) == len(set(names))
    several = SEVERAL.replace("AUDIENCE", "mcp_client" if "drupal" in together else "https://gw.example.com/crm/mcp")
    made = settings_of(resources, tmp_path, several if "several-services" in together else "")
    assert made.auth.mode == ("off" if "unauthenticated" in together else "jwt")


def test_the_two_kinds_of_autoscaling_are_not_taken_together(folder: Path) -> None:
    with pytest.raises(AssertionError, match="already registered id"):
        combined(folder, "high-availability", "high-availability-keda")


@pytest.mark.parametrize("components", EXCLUSIVE, ids=lambda pair: "+".join(sorted(pair)))
def test_the_documents_say_which_exclude_each_other(components: set[str]) -> None:
    page = (DEPLOY.parent / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    rows = [rf"(?m)^\| `{one}` \|.*not with .*`{other}`" for one, other in itertools.permutations(components)]
    assert any(re.search(row, page) for row in rows), components


def test_what_is_scaled_by_calls_is_the_deployment_and_by_nothing_else(folder: Path) -> None:
    resources = combined(folder, "high-availability-keda", "monitoring")
    assert not [one for one in resources if one["kind"] == "HorizontalPodAutoscaler"]
    scaled = only(resources, "ScaledObject")["spec"]
    assert scaled["scaleTargetRef"]["name"] == only(resources, "Deployment")["metadata"]["name"]
    assert scaled["minReplicaCount"] == only(resources, "Deployment")["spec"]["replicas"]
    metrics = re.search(r'__name__=~"([^"]+)"', scaled["triggers"][0]["metadata"]["query"])
    assert metrics
    assert set(metrics[1].split("|")) <= {family.name for family in FAMILIES}


def test_the_service_beside_the_gateway_is_reached_over_loopback_and_outlives_it(folder: Path, tmp_path: Path) -> None:
    resources = combined(folder, "sidecar")
    (service,) = pod_of(resources)[0]["initContainers"]
    assert service["restartPolicy"] == "Always"  # else it is no sidecar, and the gateway waits for its end
    made = settings_of(resources, tmp_path)
    assert urlsplit(made.by_mount[""].backend.url).hostname == "127.0.0.1"
    assert only(resources, "Service")["spec"]["ports"][0]["targetPort"] == "http"


def test_the_service_beside_the_gateway_may_be_reached_over_a_socket_that_both_have(
    folder: Path, tmp_path: Path
) -> None:
    resources = combined(folder, "sidecar-unix")
    pod = pod_of(resources)[0]
    backend = settings_of(resources, tmp_path).by_mount[""].backend
    assert (backend.target, backend.socket) == ("http://localhost/jsonrpc", "/run/service/rpc.sock")
    for container in (*pod["initContainers"], *pod["containers"]):
        assert {"name": "socket", "mountPath": "/run/service"} in container["volumeMounts"]


def test_two_gateways_of_many_components_share_no_name_and_select_only_their_own(folder: Path) -> None:
    both = [combined(folder, *MANY, prefix=prefix) for prefix in ("crm-", "shop-")]
    names = [{(one["kind"], one["metadata"]["name"]) for one in resources} for resources in both]
    assert not names[0] & names[1]
    labels = [{name for resource in resources for name in selected(resource)} for resources in both]
    assert labels == [{"crm-jsonrpc-mcp-gateway"}, {NAME}]


def test_what_leads_to_the_gateway_leads_to_its_service(folder: Path) -> None:
    ingress = only(combined(folder, "ingress"), "Ingress")
    (rule,) = ingress["spec"]["rules"]
    assert rule["http"]["paths"][0]["backend"]["service"] == {"name": NAME, "port": {"name": "http"}}
    (route,) = only(combined(folder, "gateway-api"), "HTTPRoute")["spec"]["rules"]
    assert route["backendRefs"] == [{"name": NAME, "port": 80}]
    assert route["timeouts"] == {"request": "0s", "backendRequest": "0s"}
    scaler = only(combined(folder, "high-availability"), "HorizontalPodAutoscaler")
    assert scaler["spec"]["scaleTargetRef"]["name"] == NAME


def test_the_certificate_is_the_one_that_the_ingress_shows(folder: Path) -> None:
    resources = combined(folder, "ingress", "cert-manager")
    (tls,) = only(resources, "Ingress")["spec"]["tls"]
    certificate = only(resources, "Certificate")["spec"]
    assert (certificate["secretName"], certificate["dnsNames"]) == (tls["secretName"], tls["hosts"])


@pytest.mark.parametrize(("name", "version"), VALID)
def test_a_finished_example_and_each_component_are_valid_to_the_letter(folder: Path, name: str, version: str) -> None:
    overlay = folder / "kubernetes" / "overlays" / name
    for resource in once(overlay) if name in OVERLAYS else combined(folder, name.removeprefix("components/")):
        if resource["kind"] not in OWN:
            kubernetes_validate.validate(resource, version, strict=True)


def test_what_operators_add_to_kubernetes_is_valid_by_their_own_schemas(folder: Path) -> None:
    resources = [one for one in combined(folder, *MANY) if one["kind"] in OWN]
    assert {one["kind"] for one in resources} == set(OWN)
    for name in OVERLAYS:
        resources += [one for one in once(folder / "kubernetes" / "overlays" / name) if one["kind"] in OWN]
    assert faults_of_others(resources) == [[] for _ in resources]


def test_a_wrong_type_and_a_member_that_does_not_exist_are_found(folder: Path) -> None:
    route = only(combined(folder, "gateway-api"), "HTTPRoute")
    route["spec"]["rules"][0]["timeouts"] = {"request": "soon"}
    scaled = only(combined(folder, "high-availability-keda"), "ScaledObject")
    scaled["spec"]["minReplicas"] = 3
    unknown = {"apiVersion": "keda.sh/v1alpha1", "kind": "Scaling", "metadata": {"name": "x"}}
    in_route, in_scaled, in_unknown = map("\n".join, faults_of_others([route, scaled, unknown]))
    assert "timeouts/request must match pattern" in in_route
    assert "'\"minReplicas\"' does not exist" in in_scaled
    assert "Cannot find module" in in_unknown


@pytest.mark.parametrize("name", OVERLAYS)
def test_the_configuration_of_a_finished_example_is_one_that_the_gateway_takes(
    folder: Path, name: str, tmp_path: Path
) -> None:
    made = settings_of(once(folder / "kubernetes" / "overlays" / name), tmp_path)
    assert len(made.by_mount) == (12 if name.startswith("twelve") else 1)
    assert made.store.is_shared == name.endswith("ha")


def test_at_a_drupal_site_each_caller_has_the_list_and_the_rights_that_the_site_gives(
    folder: Path, tmp_path: Path
) -> None:
    made = settings_of(once(folder / "kubernetes" / "overlays" / "drupal"), tmp_path).by_mount[""]
    modes = credential_modes(made)
    assert {modes.calls.name, modes.effective_listing.name} == {"same_resource"}
    assert modes.lists_per_caller
    (issuer,) = made.auth.issuers
    assert urlsplit(issuer.issuer).netloc == urlsplit(made.backend.url).netloc


def test_memory_and_time_of_the_pod_are_enough_for_the_gateways_own_bounds(folder: Path) -> None:
    resources = combined(folder, "high-availability")
    pod, container = pod_of(resources)
    server = load_settings(None, ["backend.url=http://127.0.0.1:1/", "auth.mode=off"], environ={}).server
    limit = int(container["resources"]["limits"]["memory"].removesuffix("Mi")) * 1024**2
    assert limit >= 180 * 1024**2 + 1.5 * server.max_buffered  # docs/scaling.md, "Connections and memory"
    needed = container["lifecycle"]["preStop"]["sleep"]["seconds"] + server.drain_delay + server.shutdown_timeout
    assert pod["terminationGracePeriodSeconds"] > needed + 1


def test_an_ingress_and_a_route_pass_the_paths_of_services_and_groups_alike(folder: Path) -> None:
    """And their metadata: no path is named, so none is missing once a group is added."""
    rendered_here = combined(folder, "gateway-api", "ingress")
    (rule,) = only(rendered_here, "Ingress")["spec"]["rules"]
    assert [(one["path"], one["pathType"]) for one in rule["http"]["paths"]] == [("/", "Prefix")]
    (route,) = only(rendered_here, "HTTPRoute")["spec"]["rules"]
    assert "matches" not in route
