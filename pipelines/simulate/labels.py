"""Label columns of the samples: which device a row is of, and whom it names."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipelines.simulate.scenario import Lease, Scenario
from pipelines.tables import SAMPLE_LABELS

CLUSTER: Final = "demo"
_OF_OWNER: Final = ("namespace", "pod", "container", "pod_uid", "job")


class Labels:
    """Looks labels up by unit and by owner.

    An owner is a lease's place in the scenario; below 0 it is nobody, and then a Kubernetes node's samples
    carry the exporter's own pod, as Prometheus attaches it.
    """

    def __init__(self, scenario: Scenario) -> None:
        fleet = scenario.fleet
        self._units = len(fleet.units)
        self._leases = len(scenario.leases)
        node_of_device = np.array([device.node for device in fleet.devices])
        self._node_of_unit = node_of_device[[unit.device for unit in fleet.units]]
        rows = []
        for held in (True, False):  # a time slice is named only while it is held
            for unit in fleet.units:
                device = fleet.devices[unit.device]
                rows.append(
                    {
                        "cluster": CLUSTER,
                        "node": fleet.nodes[device.node].name,
                        "device": device.uuid,
                        "instance": unit.instance.gi if unit.instance else None,
                        "profile": unit.instance.profile if unit.instance else None,
                        "model": device.card.model,
                        "index": str(device.index),
                        "slice": str(unit.slot) if held and unit.slot is not None else None,
                        "replica": None,
                        "scrape_job": "gpu-exporter",
                    }
                )
        of_unit = [name for name in SAMPLE_LABELS if name not in (*_OF_OWNER, "time")]
        self._of_unit = pl.DataFrame(rows, schema={name: SAMPLE_LABELS[name] for name in of_unit})
        owners = [_owner(lease) for lease in scenario.leases]
        for place, node in enumerate(fleet.nodes):
            pod = None if node.slurm else f"nvidia-dcgm-exporter-{scenario.seed % 1000:03d}{place:03d}"
            namespace, container = (None, None) if node.slurm else ("gpu-operator", "nvidia-dcgm-exporter")
            owners.append((namespace, pod, container, None, None))
        self._of_owner = pl.DataFrame(owners, schema={name: SAMPLE_LABELS[name] for name in _OF_OWNER}, orient="row")

    def frame(self, units: NDArray[np.int64], owners: NDArray[np.int64]) -> pl.DataFrame:
        """Label columns (all but ``time``) of rows of these units, naming these owners."""
        named = owners >= 0
        unit_rows = np.where(named, units, units + self._units)
        owner_rows = np.where(named, owners, self._leases + self._node_of_unit[units])
        return pl.concat([self._of_unit[unit_rows], self._of_owner[owner_rows]], how="horizontal")


def _owner(lease: Lease) -> tuple[str | None, str | None, str | None, str | None, str | None]:
    if lease.pod is None:
        return None, None, None, None, lease.workload
    return lease.namespace, lease.pod, "main", lease.pod_uid, None
