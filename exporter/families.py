"""From a snapshot to metric families: the catalogue's, and what the exporter says of itself and of owners."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import metadata
from typing import Final

from exporter.catalog import BY_KEY, CATALOG, PREFIX
from exporter.devices import Device, GpuInstance
from exporter.exposition import Family, labels
from exporter.identity import Target
from exporter.kernel_log import UNLISTED_CARD
from exporter.owners.claims import Owner
from exporter.owners.shares import Share, unowned
from exporter.snapshot import CardState, Snapshot
from exporter.xid import XidTally, xid_class

_XidItem = tuple[tuple[str, str | None, int], XidTally]

OWN_METRICS: Final[dict[str, tuple[str, str]]] = {
    "build_info": ("gauge", "Version of the exporter; always 1."),
    "backend_info": ("gauge", "Backend that reads the GPUs and the driver's version; always 1."),
    "backend_up": ("gauge", "Whether the driver or the host engine answered in the last pass."),
    "devices_expected": (
        "gauge",
        "Cards that this node should have: --expect, else all seen or bound to the driver.",
    ),
    "devices_present": ("gauge", "Cards that the driver lists now."),
    "device_info": ("gauge", "What a card is: PCI address, minor and serial number, firmware versions; always 1."),
    "device_up": ("gauge", "Whether the card answered in the last pass."),
    "device_state": ("gauge", "The card's state (up, lost, missing, stalled) as a label; always 1."),
    "capability": ("gauge", "Whether the card supports a group of metrics."),
    "unowned_share_ratio": ("gauge", "Share of a card or MIG instance that nobody is known to hold."),
    "owner_conflicts": ("gauge", "Sources that name another owner than the source that is believed."),
    "owner_adapter_up": ("gauge", "Whether an owner adapter answered in the last three intervals."),
    "owner_unresolved_devices": ("gauge", "Device names of an owner adapter that fit no device of this node."),
    "kernel_log_up": ("gauge", "Whether the kernel's log is read for XIDs, with --kernel-log."),
    "xid_errors_total": ("counter", "XID errors since the exporter started."),
    "xid_last_timestamp_seconds": ("gauge", "When an XID error came last, in Unix time."),
    "rejected_samples_total": (
        "counter",
        "Values that can't have been measured, and XIDs that name no card or code; they were dropped.",
    ),
    "passes_total": ("counter", "Passes over the GPUs since the exporter started."),
    "pass_failures_total": ("counter", "Passes in which no card answered."),
    "pass_duration_seconds": ("gauge", "How long the last pass took."),
    "stalled_calls": ("gauge", "Calls into the driver or an owner adapter that hang now."),
    "sample_age_seconds": ("gauge", "Age of a card's values at the time of the scrape."),
    "scrapes_total": ("counter", "Scrapes of /metrics."),
    "open_connections": ("gauge", "Connections open now."),
    "refused_connections_total": ("counter", "Connections closed because too many were open."),
}
"""The exporter's own metrics by key: kind and help."""


class FamilyBuilder:
    """Builds families; label texts of cards are made once and kept.

    Args:
        owner_labels: put the owner's labels on every series of a device that has exactly one owner.
    """

    def __init__(self, *, owner_labels: bool = False) -> None:
        self._owner_labels = owner_labels
        self._cache: dict[tuple[object, ...], str] = {}
        self._last: dict[tuple[object, ...], str] = {}

    def build(self, snapshot: Snapshot) -> Iterator[Family]:
        """The families of one page, those without samples included."""
        owners = sole_owners(snapshot.shares) if self._owner_labels else {}
        # Owners come and go: only the label texts of the last pass are kept.
        self._cache, self._last = {}, self._cache
        yield from self._devices(snapshot, owners)
        yield from self._own(snapshot)

    def _devices(self, snapshot: Snapshot, owners: Mapping[Target, Owner]) -> Iterator[Family]:
        rows: list[tuple[str, Mapping[str, float]]] = []
        for card in snapshot.cards:
            device = card.device
            rows.append((self._labels(snapshot.node, device, None, owners.get(Target(device.uuid))), card.values))
            for instance in device.instances:
                values = card.instance_values.get(instance.id, {})
                owner = owners.get(Target(device.uuid, instance.id))
                rows.append((self._labels(snapshot.node, device, instance, owner), values))
        for metric in CATALOG:
            key = metric.key
            samples = [(where, values[key]) for where, values in rows if key in values]
            yield Family(metric.name, metric.kind, metric.help, samples)

    def _labels(self, node: str, device: Device, instance: GpuInstance | None, owner: Owner | None = None) -> str:
        key = (device, instance, owner)
        text = self._last.get(key)
        if text is None:
            text = labels(device_labels(node, device, instance) | (owner.labels() if owner else {}))
        self._cache[key] = text
        return text

    def _own(self, snapshot: Snapshot) -> Iterator[Family]:
        node = {"node": snapshot.node}
        yield own_family("build_info", [(labels(node | {"version": _version()}), 1)])
        yield own_family("backend_info", [
            (labels(node | {"backend": snapshot.backend, "driver_version": snapshot.driver_version}), 1)
        ])  # fmt: skip
        yield own_family("backend_up", [(labels(node), int(snapshot.backend_up))])
        yield own_family("devices_expected", [(labels(node), snapshot.expected)])
        yield own_family("devices_present", [(labels(node), snapshot.present)])
        yield from self._cards(snapshot)
        yield from self._ownership(snapshot)
        yield from self._xids(snapshot)
        log_up = snapshot.kernel_log_up
        yield own_family("kernel_log_up", [] if log_up is None else [(labels(node), int(log_up))])
        yield own_family("rejected_samples_total", [
            (labels(node | {"metric": key, "reason": reason}), count)
            for (key, reason), count in sorted(snapshot.rejected.items())
        ])  # fmt: skip
        yield own_family("passes_total", [(labels(node), snapshot.passes)])
        yield own_family("pass_failures_total", [(labels(node), snapshot.failed_passes)])
        yield own_family("pass_duration_seconds", [(labels(node), snapshot.pass_seconds)])
        yield own_family("stalled_calls", [(labels(node), snapshot.stalled)])

    def _cards(self, snapshot: Snapshot) -> Iterator[Family]:
        own = [(card, device_labels(snapshot.node, card.device)) for card in snapshot.cards]
        yield own_family("device_info", [(labels(named | _description(card.device)), 1) for card, named in own])
        yield own_family("device_up", [(labels(named), int(card.up)) for card, named in own])
        yield own_family("device_state", [(labels(named | {"state": card.state}), 1) for card, named in own])
        yield own_family("capability", [
            (labels(named | {"capability": name}), int(supported))
            for card, named in own
            for name, supported in card.capabilities.items()
        ])  # fmt: skip

    def _ownership(self, snapshot: Snapshot) -> Iterator[Family]:
        held: dict[str, float] = {}
        for share in snapshot.shares:
            where = labels(self._target_labels(snapshot, share.target) | _share_labels(share))
            held[where] = held.get(where, 0.0) + float(share.share)
        share_metric = BY_KEY["owner_share_ratio"]
        yield Family(share_metric.name, share_metric.kind, share_metric.help, list(held.items()))
        left = unowned(snapshot.shares)
        yield own_family("unowned_share_ratio", [
            (labels(self._target_labels(snapshot, target)), float(left.get(target, 1))) for target in targets(snapshot)
        ])  # fmt: skip
        yield own_family("owner_conflicts", [
            (labels(self._target_labels(snapshot, conflict.target)
                    | {"believed": conflict.kept, "overruled": conflict.overruled}), 1)
            for conflict in snapshot.conflicts
        ])  # fmt: skip
        node = {"node": snapshot.node}
        adapters = [(labels(node | {"adapter": adapter.name}), adapter) for adapter in snapshot.adapters]
        yield own_family("owner_adapter_up", [(where, int(adapter.up)) for where, adapter in adapters])
        yield own_family("owner_unresolved_devices", [(where, adapter.unresolved) for where, adapter in adapters])

    def _target_labels(self, snapshot: Snapshot, target: Target) -> dict[str, str]:
        device = next(card.device for card in snapshot.cards if card.device.uuid == target.uuid)
        instance = next((found for found in device.instances if found.id == target.instance), None)
        return device_labels(snapshot.node, device, instance)

    def _xids(self, snapshot: Snapshot) -> Iterator[Family]:
        by_uuid = {card.device.uuid: card.device for card in snapshot.cards}
        rows = []
        for (uuid, instance_id, code), tally in sorted(snapshot.xids.items(), key=_xid_order(by_uuid)):
            device = by_uuid.get(uuid)
            if device:
                named = device_labels(snapshot.node, device)
            elif uuid.startswith(UNLISTED_CARD):
                named = {"node": snapshot.node, "pci_bus_id": uuid.removeprefix(UNLISTED_CARD)}
            else:
                named = {"node": snapshot.node, "uuid": uuid}
            if instance_id is not None:
                named["gpu_instance"] = instance_id
            rows.append((labels(named | {"xid": str(code), "class": xid_class(code)}), tally))
        yield own_family("xid_errors_total", [(where, tally.count) for where, tally in rows])
        yield own_family("xid_last_timestamp_seconds", [(where, tally.last_time) for where, tally in rows])


def _xid_order(devices: Mapping[str, Device]) -> Callable[[_XidItem], tuple[int, str, int]]:
    def key(item: _XidItem) -> tuple[int, str, int]:
        uuid, instance, code = item[0]
        return (devices[uuid].index if uuid in devices else -1, instance or "", code)

    return key


def device_labels(node: str, device: Device, instance: GpuInstance | None = None) -> dict[str, str]:
    """The labels of a card's series, or of its GPU instance's."""
    named = {"node": node, "gpu": str(device.index), "uuid": device.uuid, "model": device.model}
    if instance is not None:
        named |= {"gpu_instance": instance.id, "gpu_profile": instance.profile}
    return named


def sole_owners(shares: Sequence[Share]) -> dict[Target, Owner]:
    """The owner of each target that has exactly one; a shared device's series stay bare."""
    found: dict[Target, list[Share]] = {}
    for share in shares:
        found.setdefault(share.target, []).append(share)
    return {target: held[0].owner for target, held in found.items() if len(held) == 1}


def targets(snapshot: Snapshot) -> list[Target]:
    """What can be held on this node: GPU instances of cards in MIG mode, else the cards."""
    found: list[Target] = []
    for card in snapshot.cards:
        if card.device.instances:
            found.extend(Target(card.device.uuid, instance.id) for instance in card.device.instances)
        else:
            found.append(Target(card.device.uuid))
    return found


def age_family(node: str, cards: Sequence[CardState], now: float) -> Family:
    """The age of each card's values at ``now`` (monotonic)."""
    return own_family(
        "sample_age_seconds",
        [
            (labels(device_labels(node, card.device)), round(now - card.sampled_at, 3))
            for card in cards
            if card.sampled_at is not None
        ],
    )


def own_family(key: str, samples: list[tuple[str, float]]) -> Family:
    """A family of the exporter's own metrics."""
    kind, help_text = OWN_METRICS[key]
    return Family(PREFIX + key, kind, help_text, samples)


@cache
def _version() -> str:
    try:
        return metadata.version("gpuledger")
    except metadata.PackageNotFoundError:  # run from a checkout that was never installed
        return "unknown"


def _description(device: Device) -> dict[str, str]:
    minor = "" if device.minor is None else str(device.minor)
    return {
        "pci_bus_id": device.pci_bus_id, "minor": minor, "serial": device.serial, "vbios": device.vbios,
        "inforom": device.inforom,
    }  # fmt: skip


def _share_labels(share: Share) -> dict[str, str]:
    named = share.owner.labels() | {"source": share.source}
    return named | {"vgpu": share.slice} if share.slice else named
