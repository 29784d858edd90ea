"""Where a namespace denies all by default, the policies of deploy/ let through what is needed, and no more."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.each import each
from tests.kustomize import rendered

KUBERNETES: Final = Path(__file__).parents[2] / "deploy" / "kubernetes"
DENY_ALL: Final[dict[str, Any]] = {
    "kind": "NetworkPolicy",
    "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
}
NAMESPACE: Final = "mcp"


class Peer(NamedTuple):
    """A pod, by a label and its namespace, or an address that is no pod's."""

    label: tuple[str, str] = ("app", "neighbor")
    namespace: str = NAMESPACE
    address: str | None = None


OUTSIDE: Final = Peer(address="203.0.113.7")
METADATA: Final = Peer(address="169.254.169.254")
DNS: Final = Peer(("k8s-app", "kube-dns"), "kube-system")
LOCAL_DNS: Final = Peer(address="169.254.20.10")
NGINX: Final = Peer(("app.kubernetes.io/name", "ingress-nginx"), "ingress-nginx")
GATEWAY_API: Final = Peer(("app", "envoy"), "gateways")
PROMETHEUS: Final = Peer(("app.kubernetes.io/name", "prometheus"), "monitoring")
NEIGHBOR: Final = Peer()
HTTP, ADMIN = (8080, "TCP"), (9090, "TCP")
OUT: Final = {
    (DNS, 53, "UDP"), (DNS, 53, "TCP"), (LOCAL_DNS, 53, "UDP"), (LOCAL_DNS, 53, "TCP"),
    (OUTSIDE, 443, "TCP"), (OUTSIDE, 80, "TCP"), (OUTSIDE, 6379, "TCP"),
}  # fmt: skip


def matches(selector: dict[str, Any] | None, labels: dict[str, str]) -> bool:
    """Return whether a label selector (of ``matchLabels`` alone) selects ``labels``."""
    if selector is None:
        return True
    assert not selector.keys() - {"matchLabels"}, selector
    return selector.get("matchLabels", {}).items() <= labels.items()


def is_of(rule_peer: dict[str, Any], peer: Peer) -> bool:
    """Return whether a peer of a rule is ``peer`` (Kubernetes, NetworkPolicyPeer)."""
    if block := rule_peer.get("ipBlock"):
        if peer.address is None or ip_address(peer.address).version != ip_network(block["cidr"]).version:
            return False
        cut = [ip_network(network) for network in block.get("except", ())]
        address = ip_address(peer.address)
        return address in ip_network(block["cidr"]) and not any(address in network for network in cut)
    if peer.address is not None:
        return False
    if "namespaceSelector" not in rule_peer and peer.namespace != NAMESPACE:
        return False
    of_namespace = {"kubernetes.io/metadata.name": peer.namespace}
    return matches(rule_peer.get("namespaceSelector"), of_namespace) and matches(
        rule_peer.get("podSelector"), dict([peer.label])
    )


def let_through(resources: list[dict[str, Any]], direction: str, peer: Peer, port: int, protocol: str) -> bool:
    """Return whether some policy that selects the gateway's pod permits this. Policies add up, and none forbids."""
    (pod,) = [one["spec"]["template"] for one in resources if one["kind"] == "Deployment"]
    (container,) = pod["spec"]["containers"]
    named = {one["name"]: one["containerPort"] for one in container["ports"]}
    policies = [one["spec"] for one in [DENY_ALL, *resources] if one["kind"] == "NetworkPolicy"]
    mine = [one for one in policies if matches(one["podSelector"], pod["metadata"]["labels"])]
    rules = [rule for one in mine if direction.title() in one["policyTypes"] for rule in one.get(direction, ())]
    side = "from" if direction == "ingress" else "to"
    return any(
        any(is_of(one, peer) for one in rule[side])
        and any((named.get(one["port"], one["port"]), one["protocol"]) == (port, protocol) for one in rule["ports"])
        for rule in rules
    )


@each(
    ("overlay", "coming"),
    [
        ("one-service", {(NGINX, *HTTP)}),
        ("drupal", {(NGINX, *HTTP)}),
        ("twelve-services-ha", {(GATEWAY_API, *HTTP), (PROMETHEUS, *ADMIN)}),
    ],
)
def test_where_all_is_denied_what_is_needed_passes_and_nothing_else(
    overlay: str, coming: set[tuple[Peer, int, str]]
) -> None:
    resources = rendered(KUBERNETES / "overlays" / overlay)
    peers = (OUTSIDE, METADATA, DNS, LOCAL_DNS, NGINX, GATEWAY_API, PROMETHEUS, NEIGHBOR)
    ports = [(port, protocol) for port in (22, 53, 80, 443, 6379, 8080, 9090) for protocol in ("TCP", "UDP")]
    asked = [(peer, *port) for peer in peers for port in ports]
    assert [one for one in asked if let_through(resources, "ingress", *one)] == [one for one in asked if one in coming]
    assert [one for one in asked if let_through(resources, "egress", *one)] == [one for one in asked if one in OUT]


def test_the_base_alone_admits_a_labelled_pod_of_its_namespace_and_no_other() -> None:
    resources = rendered(KUBERNETES / "base")
    proxy = ("jsonrpc-mcp-gateway/client", "true")
    assert let_through(resources, "ingress", Peer(proxy), *HTTP)
    assert not let_through(resources, "ingress", Peer(proxy), *ADMIN)
    assert not let_through(resources, "ingress", Peer(proxy, "elsewhere"), *HTTP)
    assert not let_through(resources, "ingress", NEIGHBOR, *HTTP)
