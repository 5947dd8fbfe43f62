"""One place that knows which device an identifier means.

Kubelet, Slurm, DCGM, drivers and people name the same card by UUID, NVML index, /dev minor number, PCI address or
MIG UUID. Everything is joined by UUID here; an identifier that fits no device resolves to nothing, never to a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from exporter.devices import Device


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """What can be held: a card, or a GPU instance of it (``instance`` is then its id).

    ``mig_device`` names one compute instance where a GPU instance has several.
    """

    uuid: str
    instance: str = ""
    mig_device: str = ""


class Identities:
    """Finds targets by any of their names."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self._by_name: dict[str, Target] = {}
        self._by_index: dict[str, Target] = {}
        self._by_minor: dict[str, Target] = {}
        self._instances: dict[tuple[str, str], GpuInstanceNames] = {}
        for device in devices:
            self._add(device)

    def _add(self, device: Device) -> None:
        card = Target(device.uuid)
        self._by_name[device.uuid.lower()] = card
        self._by_name[pci_name(device.pci_bus_id)] = card
        self._by_index[str(device.index)] = card
        if device.minor is not None:
            self._by_minor[str(device.minor)] = card
        for instance in device.instances:
            several = len(instance.mig_devices) > 1
            self._instances[device.uuid, instance.id] = GpuInstanceNames(
                {mig.compute_instance: mig.uuid for mig in instance.mig_devices} if several else {}
            )
            for mig in instance.mig_devices:
                self._by_name[mig.uuid.lower()] = Target(device.uuid, instance.id, mig.uuid if several else "")

    def by_index(self, index: str) -> Target | None:
        """By NVML index, or ``index.instance``."""
        return self._numbered(self._by_index, index)

    def by_minor(self, minor: str) -> Target | None:
        """By minor number (what Slurm calls IDX), or ``minor.instance``."""
        return self._numbered(self._by_minor, minor)

    def _numbered(self, table: dict[str, Target], number: str) -> Target | None:
        card, _, instance = number.partition(".")
        found = table.get(card)
        if found is None or not instance:
            return found
        return Target(found.uuid, instance) if (found.uuid, instance) in self._instances else None

    def resolve(self, name: str) -> Target | None:
        """By any name that says which kind it is.

        ``GPU-…``, ``GPU-…::3`` (time slice or MPS client), ``MIG-…``, ``MIG-GPU-…/gi/ci``, ``nvidia0/gi3``,
        ``nvidia0/gi3/ci0``, ``nvidia0`` (DCGM's name: by index), a PCI address.
        """
        name = name.split("::", 1)[0].strip()
        found = self._by_name.get(name.lower()) or self._by_name.get(pci_name(name))
        if found is not None:
            return found
        if match := re.fullmatch(r"MIG-(GPU-[0-9a-fA-F-]+)/(\d+)/(\d+)", name):
            return self._instance(match[1].lower(), match[2], match[3])
        if match := re.fullmatch(r"(?:/dev/)?nvidia(\d+)(?:/gi(\d+)(?:/ci(\d+))?)?", name):
            card = self._by_minor.get(match[1]) if name.startswith("/dev/") else self._by_index.get(match[1])
            if card is None or match[2] is None:
                return card
            return self._instance(card.uuid.lower(), match[2], match[3])
        return None

    def _instance(self, uuid: str, instance: str, compute: str | None) -> Target | None:
        card = self._by_name.get(uuid)
        if card is None or (card.uuid, instance) not in self._instances:
            return None
        return Target(card.uuid, instance, self._instances[card.uuid, instance].of(compute))

    def parts(self, target: Target) -> int:
        """How many MIG devices share the target's GPU instance; 1 for a card."""
        names = self._instances.get((target.uuid, target.instance))
        return max(1, len(names.mig_devices)) if names else 1


@dataclass(frozen=True, slots=True)
class GpuInstanceNames:
    """MIG UUIDs by compute instance, of a GPU instance that has several."""

    mig_devices: dict[str, str]

    def of(self, compute: str | None) -> str:
        """The MIG UUID of one compute instance; "" where there is only one."""
        return self.mig_devices.get(compute or "", "")


def pci_name(address: str) -> str:
    """A PCI address in one form: DCGM and the kernel write domains of 8 and 4 digits."""
    domain, colon, rest = address.strip().lower().partition(":")
    return f"{domain.lstrip('0') or '0'}:{rest}" if colon and rest.count(":") == 1 else address.strip().lower()
