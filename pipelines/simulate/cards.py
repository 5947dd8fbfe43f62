"""The cards of the simulated fleet: what their data sheets say, as far as their signals show it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final


@dataclass(frozen=True, slots=True)
class Card:
    """One model.

    Args:
        gres: Slurm's type of the card.
        kelvin_per_watt: how far the chip stands above the inlet air, per watt drawn.
        pcie_bytes_per_second, nvlink_bytes_per_second: peak of one direction; 0 where it has no such link.
        profiling: whether the exporter has profiling fields (engine, SM, tensor, DRAM, PCIe, NVLink) of it.
    """

    model: str
    gres: str
    memory_mib: int
    reserved_mib: int
    idle_watts: float
    limit_watts: float
    idle_clock_mhz: int
    max_clock_mhz: int
    kelvin_per_watt: float
    pcie_bytes_per_second: float
    nvlink_bytes_per_second: float
    profiling: bool


H100: Final = Card(
    model="NVIDIA H100 80GB HBM3",
    gres="h100",
    memory_mib=81_559,
    reserved_mib=551,
    idle_watts=71.0,
    limit_watts=700.0,
    idle_clock_mhz=345,
    max_clock_mhz=1980,
    kelvin_per_watt=0.062,
    pcie_bytes_per_second=64e9,
    nvlink_bytes_per_second=450e9,
    profiling=True,
)
A100: Final = Card(
    model="NVIDIA A100-SXM4-80GB",
    gres="a100",
    memory_mib=81_920,
    reserved_mib=668,
    idle_watts=58.0,
    limit_watts=400.0,
    idle_clock_mhz=210,
    max_clock_mhz=1410,
    kelvin_per_watt=0.105,
    pcie_bytes_per_second=32e9,
    nvlink_bytes_per_second=300e9,
    profiling=True,
)
# Its exporter reads NVML alone, and GPM begins with Hopper: no profiling fields.
T4: Final = Card(
    model="Tesla T4",
    gres="t4",
    memory_mib=15_360,
    reserved_mib=446,
    idle_watts=9.5,
    limit_watts=70.0,
    idle_clock_mhz=300,
    max_clock_mhz=1590,
    kelvin_per_watt=0.68,
    pcie_bytes_per_second=16e9,
    nvlink_bytes_per_second=0.0,
    profiling=False,
)
H200: Final = Card(
    model="NVIDIA H200",
    gres="h200",
    memory_mib=143_771,
    reserved_mib=628,
    idle_watts=76.0,
    limit_watts=700.0,
    idle_clock_mhz=345,
    max_clock_mhz=1980,
    kelvin_per_watt=0.062,
    pcie_bytes_per_second=64e9,
    nvlink_bytes_per_second=450e9,
    profiling=True,
)
L40S: Final = Card(
    model="NVIDIA L40S",
    gres="l40s",
    memory_mib=46_068,
    reserved_mib=600,
    idle_watts=34.0,
    limit_watts=350.0,
    idle_clock_mhz=210,
    max_clock_mhz=2520,
    kelvin_per_watt=0.14,
    pcie_bytes_per_second=32e9,
    nvlink_bytes_per_second=0.0,
    profiling=True,
)


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG instance of an 80 GB A100: its id on the card, its profile and what it takes of the card."""

    gi: str
    profile: str
    compute: Fraction
    memory: Fraction


def _instance(gi: int, profile: str, compute: int, memory: int) -> Instance:
    return Instance(str(gi), profile, Fraction(compute, 7), Fraction(memory, 8))


_3G_1, _3G_2 = _instance(1, "3g.40gb", 3, 4), _instance(2, "3g.40gb", 3, 4)
_4G, _2G_5, _1G_13 = _instance(1, "4g.40gb", 4, 4), _instance(5, "2g.20gb", 2, 2), _instance(13, "1g.10gb", 1, 1)

# Slices per profile: NVIDIA's MIG user guide. By max(compute, memory) the second leaves 1/14 of the card
# over and the fourth 1/7; the last asks for 15/14 and is scaled down.
LAYOUTS: Final[tuple[tuple[Instance, ...], ...]] = (
    (_4G, _2G_5, _1G_13),
    (_3G_1, _2G_5, _1G_13),
    (_3G_1, _3G_2),
    (_instance(3, "2g.20gb", 2, 2), _instance(4, "2g.20gb", 2, 2), _2G_5),
    tuple(_instance(gi, "1g.10gb", 1, 1) for gi in range(7, 14)),
    (_4G, _3G_2),
)


def layout_weights(layout: tuple[Instance, ...]) -> list[Fraction]:
    """The part of the card that each instance is billed as: max(compute, memory), together at most 1."""
    weights = [max(instance.compute, instance.memory) for instance in layout]
    total = sum(weights, Fraction(0))
    return [weight / total for weight in weights] if total > 1 else weights
