"""dcgm-exporter's names, labels and units beside the exporter's own, so that its dashboards and rules go on working."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from exporter.catalog import Metric, resolve
from exporter.devices import Device, GpuInstance
from exporter.documents import read_settings
from exporter.errors import ConfigError
from exporter.exposition import Family, labels
from exporter.families import sole_owners
from exporter.identity import Target
from exporter.owners.claims import Owner
from exporter.snapshot import CardState, Snapshot

_MIB: Final = 1048576.0
# What dcgm-exporter exposes without a counters file, and its Helm chart's profiling fields.
_DEFAULT_FIELDS: Final = (
    "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_ENC_UTIL", "DCGM_FI_DEV_DEC_UTIL",
    "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_RESERVED",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_VGPU_LICENSE_STATUS",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE",
    "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES",
)  # fmt: skip
# A rate that dcgm-exporter declares a counter.
_COUNTERS_BY_DECLARATION: Final = {"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"}
_LABEL_FIELDS: Final = (
    "DCGM_FI_DRIVER_VERSION", "DCGM_FI_DEV_SERIAL", "DCGM_FI_DEV_MINOR_NUMBER", "DCGM_FI_DEV_VBIOS_VERSION",
    "DCGM_FI_DEV_INFOROM_IMAGE_VER",
)  # fmt: skip
# dcgm-exporter's own counts of XIDs, in its default window and since its start.
_XID_COUNT: Final = "DCGM_EXP_XID_ERRORS_COUNT"
_XID_TOTAL: Final = "DCGM_EXP_XID_ERRORS_TOTAL"
_WINDOW_SECONDS: Final = 300


@dataclass(frozen=True, slots=True)
class DcgmSeries:
    """One line of a counters file: a field under the name that the file gives it."""

    name: str
    kind: str
    help: str
    metric: Metric
    scale: float

    def value(self, base: float) -> float:
        """A base-unit value in DCGM's unit; DCGM counts memory in whole MiB."""
        if self.scale == _MIB:
            return float(base // _MIB)
        return round(base / self.scale, 6)


@dataclass(frozen=True, slots=True)
class Counters:
    """What to expose under DCGM's names.

    Args:
        xid_counts: those of dcgm-exporter's own counts of XIDs that are asked for, with their help.
        unknown: fields of a counters file that have no metric here; they are left out.
    """

    series: tuple[DcgmSeries, ...]
    label_fields: tuple[str, ...] = ("DCGM_FI_DRIVER_VERSION",)
    xid_counts: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = field(default=())


def default_counters() -> Counters:
    """dcgm-exporter's own choice."""
    return Counters(tuple(filter(None, (_series(name, None, "") for name in _DEFAULT_FIELDS))))


def load_counters(path: Path) -> Counters:
    """A counters file of dcgm-exporter: ``field, type, help`` a line. Raises ConfigError."""
    lines = read_settings(path).split("\n")
    series: dict[str, DcgmSeries] = {}
    label_fields: list[str] = []
    xid_counts: dict[str, str] = {}
    unknown: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            cells = [cell.strip() for cell in next(csv.reader([line.rstrip("\r")], skipinitialspace=True))]
        except csv.Error as error:
            raise ConfigError(f"{path}:{number}", f"not CSV: {error}") from error
        if len(cells) < 3 or cells[1] not in {"gauge", "counter", "label"}:
            raise ConfigError(f"{path}:{number}", "`FIELD, gauge|counter|label, help` was expected")
        name, kind, text = cells[0], cells[1], ", ".join(cells[2:])
        if kind == "label":
            (label_fields if name in _LABEL_FIELDS else unknown).append(name)
            continue
        if name in {_XID_COUNT, _XID_TOTAL}:
            xid_counts[name] = text
            continue
        found = _series(name, kind, text)
        if found is None:
            unknown.append(name)
        else:
            # dcgm-exporter, too, shows a field that stands twice once.
            series.setdefault(name, found)
    return Counters(tuple(series.values()), tuple(label_fields), xid_counts, tuple(unknown))


def _series(name: str, kind: str | None, text: str) -> DcgmSeries | None:
    resolved = resolve(name)
    if resolved is None or resolved[2] != "dcgm":
        return None
    metric, scale, _ = resolved
    kind = kind or ("counter" if name in _COUNTERS_BY_DECLARATION else metric.kind)
    return DcgmSeries(name, kind, text or metric.help, metric, scale)


@dataclass(frozen=True, slots=True)
class _Row:
    """One card, or one instance of a split card, as dcgm-exporter shows it."""

    uuid: str
    instance: str | None
    named: dict[str, str]
    values: Mapping[str, float]


class DcgmFamilies:
    """Builds dcgm-exporter's families from a snapshot.

    Like dcgm-exporter, a card in MIG mode has one series per instance, those of the board's values included.
    """

    def __init__(self, counters: Counters, *, owner_labels: bool = False) -> None:
        self._counters, self._owner_labels = counters, owner_labels

    def build(self, snapshot: Snapshot) -> Iterator[Family]:
        """The families, those without samples included."""
        owners = sole_owners(snapshot.shares) if self._owner_labels else {}
        rows = [row for card in snapshot.cards for row in self._rows(snapshot, card, owners)]
        texts = [labels(row.named) for row in rows]
        for series in self._counters.series:
            key = series.metric.key
            samples = [
                (text, series.value(row.values[key]))
                for text, row in zip(texts, rows, strict=True)
                if key in row.values
            ]
            yield Family(series.name, series.kind, series.help, samples)
        for name, text in self._counters.xid_counts.items():
            kind = "counter" if name == _XID_TOTAL else "gauge"
            samples = [sample for row in rows for sample in _xid_samples(name, row, snapshot)]
            yield Family(name, kind, text, samples)

    def _rows(self, snapshot: Snapshot, card: CardState, owners: Mapping[Target, Owner]) -> Iterator[_Row]:
        device = card.device
        instances: Sequence[GpuInstance | None] = device.instances or (None,)
        for instance in instances:
            owner = owners.get(Target(device.uuid, instance.id if instance else ""))
            values: Mapping[str, float] = card.values
            if instance is not None:
                own = card.instance_values.get(instance.id, {})
                # What an instance has of its own replaces the board's; the board's profile is not the instance's.
                values = {key: value for key, value in card.values.items() if not _per_instance(key)} | dict(own)
            named = self._labels(snapshot, device, instance)
            # A pod's own label may have any name, that of the card's UUID too.
            named |= {name: value for name, value in _owner_labels(owner).items() if name not in named} if owner else {}
            yield _Row(device.uuid, instance.id if instance else None, named, values)

    def _labels(self, snapshot: Snapshot, device: Device, instance: GpuInstance | None) -> dict[str, str]:
        named = {
            "gpu": str(device.index),
            "UUID": device.uuid,
            "pci_bus_id": device.pci_bus_id,
            "device": f"nvidia{device.index}",
            "modelName": device.model,
        }
        if instance is not None:
            named |= {"GPU_I_PROFILE": instance.profile, "GPU_I_ID": instance.id}
        named["Hostname"] = snapshot.node
        known = {
            "DCGM_FI_DRIVER_VERSION": snapshot.driver_version,
            "DCGM_FI_DEV_SERIAL": device.serial,
            "DCGM_FI_DEV_MINOR_NUMBER": "" if device.minor is None else str(device.minor),
            "DCGM_FI_DEV_VBIOS_VERSION": device.vbios,
            "DCGM_FI_DEV_INFOROM_IMAGE_VER": device.inforom,
        }
        return named | {name: known[name] for name in self._counters.label_fields}


def _owner_labels(owner: Owner) -> dict[str, str]:
    """An owner's labels, pod labels under their own names, as dcgm-exporter writes them."""
    own = dict(owner.pod_labels)
    named = {name: value for name, value in owner.labels().items() if name not in own}
    return {_bare_name(name): value for name, value in own.items()} | named


def _bare_name(label: str) -> str:
    """A pod label's name without its prefix; Prometheus takes none that begins with a digit."""
    name = label.removeprefix("label_")
    return f"_{name}" if name[:1].isdigit() else name


def _xid_samples(name: str, row: _Row, snapshot: Snapshot) -> Iterator[tuple[str, float]]:
    """One sample per code; without any, dcgm-exporter's count in its window is a bare 0."""
    window = {"window_size_in_ms": str(_WINDOW_SECONDS * 1000)} if name == _XID_COUNT else {}
    found = False
    for (uuid, instance, code), tally in snapshot.xids.items():
        if uuid != row.uuid or instance not in {None, row.instance}:
            continue
        count = tally.count_since(snapshot.at - _WINDOW_SECONDS) if window else tally.count
        if count:
            found = True
            yield labels(row.named | window | {"xid": str(code)}), count
    if window and not found:
        yield labels(row.named | window), 0


def _per_instance(key: str) -> bool:
    resolved = resolve(f"gpuledger_{key}")
    return resolved is not None and resolved[0].scope == "instance"
