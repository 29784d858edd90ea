"""Three pods of a Deployment behind nginx, rolled as Kubernetes rolls them: nginx has the pods that are ready."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from pathlib import Path

from lab.deploy.kubelet import Contents, Pod
from lab.deploy.load import REPLICA
from lab.deploy.manifests import Image, Manifests
from lab.fault.restarts import documented
from tests.nginx import Nginx


class Cluster:
    """``pods`` are in the order in which they came; ``ended`` are those that are over. ``secrets`` are those that the
    operator made, by name."""

    def __init__(self, folder: Path, manifests: Manifests, image: Image, secrets: Contents) -> None:
        self.manifests = manifests
        self.image = image
        self.pods: list[Pod] = []
        self.ended: list[Pod] = []
        self.nginx: Nginx | None = None
        self._folder = folder
        self._secrets: dict[str, Mapping[str, bytes]] = dict(secrets)
        self._numbers = itertools.count(1)
        self._rotation: list[int] = []
        self._ending: set[asyncio.Task[None]] = set()

    async def start(self) -> Nginx:
        """Start as many pods as the Deployment says, and return the nginx before them, which is not started."""
        for _ in range(self.manifests.deployment["spec"]["replicas"]):
            self._add(self.image)
        await asyncio.gather(*(pod.until_ready() for pod in self.pods))
        host = " ".join(self.manifests.hosts)
        # The route has no time-outs, and other hosts lead elsewhere.
        directives = (
            f"server_name {host}; if ($host !~ ^({host})$) {{ return 404; }} proxy_read_timeout 1h; "
            f"proxy_buffering off; {documented()} add_header {REPLICA} $upstream_addr always;"
        )
        self._rotation = [pod.port for pod in self.pods]
        self.nginx = Nginx(self._rotation, directives)
        return self.nginx

    def apply(self, manifests: Manifests) -> None:
        """Change ConfigMaps; the pod template stays the same, and so no pod is rolled."""
        assert manifests.deployment == self.manifests.deployment
        self.manifests = manifests
        self._sync()

    def change_secret(self, name: str, **files: bytes) -> None:
        self._secrets[name] = {**self._secrets[name], **files}
        self._sync()

    def secret(self, name: str, file: str) -> bytes:
        return self._secrets[name][file]

    async def roll(self, image: Image) -> None:
        """Replace each pod by a new one, as ``kubectl rollout restart`` does."""
        for pod in list(self.pods):
            await self.replace(pod, image)
        await self.settle()

    async def replace(self, old: Pod, image: Image) -> Pod:
        """Start a pod; once it is available, delete the old one, whose end is not awaited."""
        spec = self.manifests.deployment["spec"]
        assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
        new = self._add(image)
        await new.until_ready()
        await asyncio.sleep(spec["minReadySeconds"])
        await new.until_ready()
        self.pods.remove(old)
        ending = asyncio.create_task(self._end(old))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        return new

    async def settle(self) -> None:
        """Wait until all pods that were deleted have ended."""
        await asyncio.gather(*self._ending)

    async def close(self) -> None:
        """End at once whatever still runs."""
        self.nginx = None
        await asyncio.gather(*(pod.abandon() for pod in (*self.pods, *self.ended)))

    def _contents(self) -> Contents:
        configs = {
            name: {file: text.encode() for file, text in data.items()} for name, data in self.manifests.configs.items()
        }
        return {**configs, **self._secrets}

    def _sync(self) -> None:
        for pod in self.pods:
            pod.sync(self._contents())

    def _add(self, image: Image) -> Pod:
        name = f"gateway-{next(self._numbers)}"
        folder = self._folder / name
        folder.mkdir()
        pod = Pod(name, self.manifests, image, folder, self._contents(), self._route)
        self.pods.append(pod)
        return pod

    async def _end(self, pod: Pod) -> None:
        self.ended.append(pod)
        await pod.end()

    def _route(self) -> None:
        """Give nginx the pods that are ready, as the controller of EndpointSlices does."""
        ready = [pod.port for pod in self.pods if pod.ready]
        if self.nginx is not None and ready and ready != self._rotation:
            self._rotation = ready
            self.nginx.route(ready)
