"""What the API server knows of this node's pods: UIDs, labels, phases; and DRA's resource slices."""

from __future__ import annotations

import http.client
import json
import logging
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from exporter.refreshed import Refreshed

_LOG = logging.getLogger(__name__)
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_REFRESH_SECONDS: Final = 30.0
_MAX_ANSWER: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What the API server says of a pod; ``labels`` are those asked for, as ``label_<name>`` pairs."""

    uid: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    ended: bool = False


class KubernetesApi:
    """Reads the API server now and then; what it can't read is empty, and the kubelet's names stand alone.

    Args:
        url: ``https://10.0.0.1:443``.
        node: this node's name, to ask for its pods only.
        pod_labels: which pod labels to carry; none by default, since each is a label on owner series.
    """

    def __init__(
        self,
        url: str,
        node: str,
        *,
        service_account: Path = SERVICE_ACCOUNT,
        pod_labels: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
        timeout_seconds: float = 5.0,
    ) -> None:
        self._url, self._node, self._account = url.rstrip("/"), node, service_account
        self._pod_labels, self._clock, self._timeout = frozenset(pod_labels), clock, timeout_seconds
        self._documents: dict[str, Refreshed[dict[str, Any]]] = {}
        self.up = True

    def pods(self) -> Mapping[tuple[str, str], PodFacts]:
        """Facts by (namespace, pod name)."""
        selector = urllib.parse.quote(f"spec.nodeName={self._node}")
        document = self._get(f"/api/v1/pods?fieldSelector={selector}")
        return {
            (item["metadata"]["namespace"], item["metadata"]["name"]): self._facts(item)
            for item in document.get("items", ())
        }

    def _facts(self, item: dict[str, Any]) -> PodFacts:
        metadata = item["metadata"]
        labels = metadata.get("labels") or {}
        wanted = sorted(self._pod_labels & labels.keys())
        phase = item.get("status", {}).get("phase", "")
        pairs = tuple((f"label_{label_name(name)}", str(labels[name])) for name in wanted)
        return PodFacts(metadata.get("uid", ""), pairs, phase in {"Succeeded", "Failed"})

    def dra_devices(self) -> Mapping[tuple[str, str, str], str]:
        """UUIDs by (driver, pool, device) from DRA's resource slices."""
        selector = urllib.parse.quote(f"spec.nodeName={self._node}")
        document = self._get(f"/apis/resource.k8s.io/v1/resourceslices?fieldSelector={selector}")
        if not document:
            document = self._get(f"/apis/resource.k8s.io/v1beta1/resourceslices?fieldSelector={selector}")
        found = {}
        for item in document.get("items", ()):
            spec = item.get("spec", {})
            for device in spec.get("devices") or ():
                # v1beta1 nests the attributes in `basic`.
                attributes = device.get("attributes") or device.get("basic", {}).get("attributes") or {}
                uuid = attributes.get("uuid", {}).get("string")
                if uuid:
                    found[spec.get("driver", ""), spec.get("pool", {}).get("name", ""), device["name"]] = uuid
        return found

    def _get(self, path: str) -> dict[str, Any]:
        if path not in self._documents:
            # What was read last stays in use: the facts of a pod don't change while it lives.
            empty: dict[str, Any] = {}
            self._documents[path] = Refreshed(
                "kubernetes-api", partial(self._fetch, path), empty, seconds=_REFRESH_SECONDS, clock=self._clock
            )
        document = self._documents[path]()
        error = self._documents[path].error
        if error is not None and self.up:
            _LOG.warning("%s%s: %s; pod UIDs and labels are missing until it answers", self._url, path, error)
        self.up = error is None
        return document

    def _fetch(self, path: str) -> dict[str, Any]:
        request = urllib.request.Request(self._url + path, headers={"Accept": "application/json"})  # noqa: S310
        token = self._account / "token"
        if token.exists():
            # Read each time: the kubelet replaces it every hour.
            request.add_header("Authorization", f"Bearer {token.read_text(encoding='utf-8').strip()}")
        authority = self._account / "ca.crt"
        context = ssl.create_default_context(cafile=str(authority) if authority.exists() else None)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout, context=context) as answer:  # noqa: S310
                document = json.loads(answer.read(_MAX_ANSWER))
        except urllib.error.HTTPError as error:
            with error:
                if error.code == http.client.NOT_FOUND:
                    return {}
                raise ConnectionError(f"HTTP {error.code}") from error
        if not isinstance(document, dict):
            raise ValueError("not a JSON object")  # noqa: TRY004  it is the answer that is wrong
        return document


def label_name(name: str) -> str:
    """A Kubernetes label as a Prometheus label name, as kube-state-metrics writes it."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)
