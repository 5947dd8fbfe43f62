"""MIG: which instances a card has at an instant, and what part of the card each of them is.

Readings
  M1. The layout at a scrape is exactly the set of (instance id, profile) seen at that time; it lasts to the next scrape
      that sees an instance, holes included (what no instance takes stays stranded there). Rejected: an instance missing
      from a scrape of its card is a hole of that instance alone; in a hole the whole card is unobserved.
  M2. A scrape of the parent alone while no instance's sample stands is an empty layout: the card is one plain device,
      idle unless the parent itself is labelled. While instances stand, the parent's labels and values count for
      nothing but the board's energy and power.
  M3. After the last instance's reach (and before the first scrape of one) the card is one plain device.
  M4. An instance is (id, profile, unbroken stretch of layouts that hold it). Where a layout changes around an instance
      that stays, its lease goes on and only its weight is new. Rejected: every lease of the card ends and begins anew,
      which would move it in the order of classes.
  M5. Memory slices of a profile are its gigabytes over the card's eighth (A30: quarter), to the nearest whole one. The
      card's gigabytes are in its model name, else by model: A30 24, H200 141, H100 NVL 94, B200 180, else 80.
  M6. Scaling down applies to every kind of weight.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction

from tests.oracle.samples import Observations, Scrape, Unit
from tests.oracle.settings import FOREVER

Key = tuple[str, str]
PLAIN: Key = ("", "")


@dataclass(frozen=True)
class Device:
    """A card as a whole, or one MIG instance of it over one unbroken stretch of layouts."""

    id: str
    unit: Unit
    start: int
    end: int

    @property
    def is_instance(self) -> bool:
        return bool(self.unit[1])


class Layouts:
    """The devices that one card consists of at each instant."""

    def __init__(self, uuid: str, seen: Observations) -> None:
        instances = {unit: scrapes for unit, scrapes in seen.scrapes.items() if unit[0] == uuid and unit[1]}
        parent = seen.scrapes.get((uuid, "", ""), [])
        events: dict[int, set[Key]] = {}
        reaches: list[tuple[int, int]] = []
        for unit, scrapes in instances.items():
            for scrape in scrapes:
                events.setdefault(scrape.at, set()).add((unit[1], unit[2]))
                reaches.append((scrape.at, scrape.end))
        for scrape in parent:
            if not any(start <= scrape.at < end for start, end in reaches):
                events.setdefault(scrape.at, set())
        if reaches:
            last_end = max(end for _, end in reaches)
            if not any(at >= last_end for at in events):
                events[last_end] = set()
        self._starts = [-FOREVER, *sorted(events)]
        self._keys = [{PLAIN}, *(events[at] or {PLAIN} for at in sorted(events))]
        self.devices = self._devices(uuid)

    def edges(self) -> list[int]:
        return self._starts[1:]

    def at(self, when: int) -> list[Device]:
        """The card's devices at an instant: itself, or its instances."""
        return [device for device in self.devices if device.start <= when < device.end]

    def scrapes(self, device: Device, seen: Observations) -> list[Scrape]:
        """The scrapes of a device's unit within its time; a parent's beside its instances are none."""
        return [s for s in seen.scrapes.get(device.unit, []) if device.start <= s.at < device.end]

    def _devices(self, uuid: str) -> list[Device]:
        devices: list[Device] = []
        open_since: dict[Key, int] = {}
        for start, keys in zip([*self._starts, FOREVER], [*self._keys, set()], strict=True):
            for key in [k for k in open_since if k not in keys]:
                device_id = uuid if key == PLAIN else f"{uuid}/{key[0]}"
                devices.append(Device(device_id, (uuid, *key), open_since.pop(key), start))
            for key in keys:
                open_since.setdefault(key, start)
        return devices

    def layout_start(self, when: int) -> int:
        return self._starts[bisect_right(self._starts, when) - 1]


def weights(profiles: list[str], model: str, kind: str) -> list[Fraction]:
    """What part of a card each of its instances is, in the order given; never more than 1 together."""
    found = [_weight(profile, model, kind) for profile in profiles]
    total = sum(found, Fraction(0))
    return [weight / total for weight in found] if total > 1 else found


def _weight(profile: str, model: str, kind: str) -> Fraction:
    compute_slices, memory_slices = (4, 4) if "A30" in model.upper() else (7, 8)
    match = re.search(r"(\d+)g\.(\d+)gb", profile)
    if not match:
        raise ValueError(f"MIG profile {profile!r} is none the oracle knows")
    compute = Fraction(int(match[1]), compute_slices)
    slice_gigabytes = Fraction(_gigabytes(model), memory_slices)
    memory = Fraction(max(1, round(int(match[2]) / slice_gigabytes)), memory_slices)
    return {"compute": compute, "memory": memory, "max": max(compute, memory)}[kind]


def _gigabytes(model: str) -> int:
    if match := re.search(r"(\d+) ?GB", model, re.IGNORECASE):
        return int(match[1])
    by_name = {"A30": 24, "H200": 141, "NVL": 94, "B200": 180}
    return next((size for name, size in by_name.items() if name in model.upper()), 80)
