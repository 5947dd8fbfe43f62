from __future__ import annotations

import pytest

from exporter.devices import Device, GpuInstance, MigDevice
from exporter.identity import Identities, Target

CARD = "GPU-6b4e0000-0000-0000-0000-000000000001"
SPLIT = "GPU-6b4e0000-0000-0000-0000-000000000002"
ONE = "MIG-aaaa0000-0000-0000-0000-000000000001"
HALF_A = "MIG-aaaa0000-0000-0000-0000-00000000000a"
HALF_B = "MIG-aaaa0000-0000-0000-0000-00000000000b"
DEVICES = [
    Device(CARD, 0, 4, "00000000:18:00.0", "H100"),
    Device(
        SPLIT, 6, 0, "00000000:3E:00.0", "H100", mig=True,
        instances=(
            GpuInstance("3", "2g.20gb", (MigDevice(ONE, "0"),)),
            GpuInstance("7", "3g.40gb", (MigDevice(HALF_A, "0"), MigDevice(HALF_B, "1"))),
        ),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "target"),
    [
        (CARD, Target(CARD)),
        (CARD.upper().replace("GPU-", "GPU-"), Target(CARD)),
        (f"{CARD}::3", Target(CARD)),
        (ONE, Target(SPLIT, "3")),
        (HALF_B, Target(SPLIT, "7", HALF_B)),
        (f"MIG-{SPLIT}/3/0", Target(SPLIT, "3")),
        (f"MIG-{SPLIT}/7/1", Target(SPLIT, "7", HALF_B)),
        ("nvidia0", Target(CARD)),
        ("nvidia6/gi3", Target(SPLIT, "3")),
        ("nvidia6/gi7/ci0", Target(SPLIT, "7", HALF_A)),
        ("/dev/nvidia4", Target(CARD)),
        ("/dev/nvidia0", Target(SPLIT)),
        ("00000000:18:00.0", Target(CARD)),
        ("0000:18:00.0", Target(CARD)),
        ("0000:3e:00.0", Target(SPLIT)),
        ("GPU-ffff0000-0000-0000-0000-000000000001", None),
        ("MIG-ffff0000-0000-0000-0000-000000000001", None),
        (f"MIG-{SPLIT}/9/0", None),
        ("nvidia1", None),
        ("mlx5_0", None),
        ("", None),
        ("0", None),  # a bare number doesn't say what it counts
    ],
)
def test_a_name_means_one_device_or_none(name: str, target: Target | None) -> None:
    assert Identities(DEVICES).resolve(name) == target


def test_index_and_minor_number_are_different_things() -> None:
    identities = Identities(DEVICES)
    assert identities.by_index("0") == Target(CARD)
    assert identities.by_minor("0") == Target(SPLIT)
    assert identities.by_index("6.3") == Target(SPLIT, "3")
    assert identities.by_index("6.4") is None
    assert identities.by_index("1") is None
