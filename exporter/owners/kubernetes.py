"""Kubernetes: which pod was given which device, from the kubelet's PodResources API."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from exporter.devices import Reading
from exporter.errors import SourceError
from exporter.identity import Identities, Target
from exporter.owners.claims import Claim, Claims, Owner
from exporter.owners.kubernetes_api import PodFacts

SOCKET: Final = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
_MAX_MESSAGE: Final = 64 << 20
# GKE's device plug-in names a card by its device file, and a share of it by a suffix.
_OF_GKE: Final = re.compile(r"(nvidia\d+(?:/gi\d+)?)(?:/vgpu(\d+))?")
_NVIDIA: Final = re.compile(r"(^|\.)nvidia\.com/|/gpu|(^|[./])mig-")


class KubernetesAdapter:
    """Claims from the kubelet.

    Args:
        socket: the kubelet's PodResources socket.
        pods: UID, labels and phase by (namespace, pod), from the API server where that is allowed.
        dra_devices: UUIDs by (driver, pool, device) of DRA's resource slices, where allowed.
    """

    name = "kubernetes"
    evidence = False

    def __init__(
        self,
        socket: Path = SOCKET,
        *,
        pods: Callable[[], Mapping[tuple[str, str], PodFacts]] = dict,
        dra_devices: Callable[[], Mapping[tuple[str, str, str], str]] = dict,
        timeout_seconds: float = 5.0,
    ) -> None:
        self._socket, self._pods, self._dra_devices, self._timeout = socket, pods, dra_devices, timeout_seconds
        self._channel: Any = None
        self._tells_slots = True
        self._slots: dict[Target, int] = {}

    def find(self, identities: Identities, readings: Mapping[str, Reading]) -> Claims:
        """Every device that the kubelet gave to a container. Raises SourceError."""
        del readings
        answer = self._call("List")
        self._read_slots(identities)
        pods = self._pods()
        claims: list[Claim] = []
        unresolved: list[str] = []
        for pod in answer.pod_resources:
            facts = pods.get((pod.namespace, pod.name), PodFacts())
            if facts.ended:
                # The kubelet lists the devices of a finished pod until the pod object is deleted.
                continue
            for container in pod.containers:
                owner = Owner(pod.namespace, pod.name, container.name, facts.uid, pod_labels=facts.labels)
                for name, target, slice_id in self._devices(container, identities):
                    if target is None:
                        unresolved.append(name)
                    else:
                        claims.append(Claim(target, owner, slice_id))
        return Claims(tuple(claims), tuple(unresolved), self._slots)

    def _read_slots(self, identities: Identities) -> None:
        """How many slices the kubelet can give of each device that is shared; kubelets before 1.23 don't say."""
        if not self._tells_slots:
            return
        try:
            answer = self._call("GetAllocatableResources")
        except SourceError as error:
            self._tells_slots = "UNIMPLEMENTED" not in str(error)
            return
        counts: Counter[Target] = Counter()
        for devices in answer.devices:
            for name in devices.device_ids:
                target, slice_id = _resolve(name, identities)
                if target is not None and slice_id:
                    counts[target] += 1
        self._slots = dict(counts)

    def _call(self, name: str) -> Any:
        """The answer to one of the kubelet's calls. Raises SourceError."""
        try:
            import grpc  # noqa: PLC0415  an extra: only nodes of a cluster need it

            from exporter.owners import podresources  # noqa: PLC0415
        except ImportError as error:
            raise SourceError("kubernetes", "gRPC is not installed", "pip install 'gpuledger[kubernetes]'") from error
        if self._channel is None:
            # Channels share their connections, and how long they wait after a failed one, unless each has its own.
            options = [("grpc.max_receive_message_length", _MAX_MESSAGE), ("grpc.use_local_subchannel_pool", 1)]
            self._channel = grpc.insecure_channel(f"unix:{self._socket}", options)
        path, request, response = podresources.CALLS[name]
        call = self._channel.unary_unary(
            path, request_serializer=request.SerializeToString, response_deserializer=response.FromString
        )
        try:
            return call(request(), timeout=self._timeout)
        except grpc.RpcError as error:
            # A restarted kubelet listens on a new socket file: connect afresh next time.
            self._channel.close()
            self._channel = None
            reason = f"{error.code().name}: {error.details()}" if isinstance(error, grpc.Call) else str(error)
            raise SourceError(str(self._socket), reason, "mount the kubelet's pod-resources folder") from error

    def _devices(self, container: Any, identities: Identities) -> Iterator[tuple[str, Target | None, str]]:
        """Name, target and slice of what a container was given."""
        for devices in container.devices:
            for name in devices.device_ids:
                target, slice_id = _resolve(name, identities)
                # Other plug-ins (network cards, other vendors' accelerators) name what is no device of this node.
                if target is not None or _NVIDIA.search(devices.resource_name):
                    yield name, target, slice_id
        for resource in container.dynamic_resources:
            for claimed in resource.claim_resources:
                names = [cdi.name for cdi in claimed.cdi_devices]
                target = self._dra_target(claimed, names, identities)
                if target is not None or "nvidia" in claimed.driver_name:
                    yield claimed.device_name, target, ""

    def _dra_target(self, claimed: Any, cdi_names: list[str], identities: Identities) -> Target | None:
        known = self._dra_devices().get((claimed.driver_name, claimed.pool_name, claimed.device_name))
        if known:
            return identities.resolve(known)
        for name in (claimed.device_name, *cdi_names):
            if match := re.search(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", name):
                return identities.resolve(match[0])
        # NVIDIA's DRA driver calls a whole card gpu-<minor number>; its MIG names can't be read without the slices.
        match = re.fullmatch(r"gpu-(\d+)", claimed.device_name)
        return identities.by_minor(match[1]) if match and "nvidia" in claimed.driver_name else None


def _resolve(name: str, identities: Identities) -> tuple[Target | None, str]:
    """What a device plug-in's name means, and which slice of it."""
    if match := _OF_GKE.fullmatch(name):
        return identities.resolve(f"/dev/{match[1]}"), match[2] or ""
    return identities.resolve(name), name.partition("::")[2]
