"""What exists, and what is down: capacity is never made of samples that are missing."""

from __future__ import annotations

from typing import Final

from tests.pipelines.cases import Case, finding, fleet, tenant
from tests.pipelines.scene import A100, Allocation, Listed, Scene, at, seen


def down(minutes: tuple[float, float], device: str = "", gpus: str = "1", tenant: str = "") -> Allocation:
    return Allocation(minutes, gpus, device, tenant=tenant, workload="repair", class_="down")


CASES: Final = [
    Case(
        "capacity runs from a device's first sample to its last; a hole in it is unobserved",
        Scene([seen("GPU-a", (0, 60)), seen("GPU-a", (120, 180)), seen("GPU-b", (30, 90))]),
        {"fleet": fleet(capacity=4, idle=3, unobserved=1)},
    ),
    Case(
        "allocated devices without samples in the middle never make idle negative",
        Scene([seen("GPU-a", (n * 60, n * 60 + 30), "astro/fit", uid="u1") for n in range(6)]),
        {"fleet": fleet(capacity=5.5, allocated=5.5, idle=0), "tenants": [tenant("astro", coverage=0.545455)]},
    ),
    Case(
        "a listed device that was never seen is unobserved",
        Scene(
            [seen("GPU-a", (0, 60))],
            inventory=[Listed(device="GPU-a", minutes=(0, 60)), Listed(device="GPU-z", minutes=(0, 60))],
        ),
        {
            "fleet": fleet(capacity=2, idle=1, unobserved=1, devices=2),
            "findings": [finding("missing_device", count=1)],
        },
    ),
    Case(
        "a row without a device is filled by the node's seen devices, never added to them",
        Scene(
            [seen("GPU-a", (0, 60), "astro/fit"), seen("GPU-b", (0, 60))],
            inventory=[Listed(gpus="3", minutes=(0, 60))],
        ),
        {"fleet": fleet(capacity=3, allocated=1, idle=1, unobserved=1, devices=3)},
    ),
    Case(
        "what is seen beyond the inventory counts from its samples, and is said",
        Scene(
            [seen("GPU-a", (0, 60)), seen("GPU-x", (0, 30), node="rack9")],
            inventory=[Listed(device="GPU-a", minutes=(0, 60))],
        ),
        {"fleet": fleet(capacity=1.5, idle=1.5), "findings": [finding("unlisted_device", count=1)]},
    ),
    Case(
        "a listed device exists as long as it is listed",
        Scene(
            [seen("GPU-a", (10, 20), "astro/fit")],
            inventory=[Listed(device="GPU-a", minutes=(-30, 45))],
            config={"window": {"from": at(0), "to": at(60)}},
        ),
        {"fleet": fleet(capacity=0.75, allocated=0.166667, unobserved=0.583333)},
    ),
    Case(
        "a node without GPUs costs nothing",
        Scene(inventory=[Listed(node="login1", gpus="0", model="")], config={"window": {"from": at(0), "to": at(60)}}),
        {"fleet": fleet(capacity=0, cost="0.00", billed="0.00", devices=0)},
    ),
    Case(
        "a lease on a device that is down is cut and not billed",
        Scene([seen("GPU-a", (0, 60), "astro/fit")], allocations=[down((45, 60), "GPU-a")]),
        {
            "fleet": fleet(capacity=1, allocated=0.75, down=0.25, cost="3.00", billed="2.25", unbilled="0.75"),
            "tenants": [tenant("astro", allocated=0.75, coverage=1)],
        },
    ),
    Case(
        "GPUs down without a name come out of unobserved, then idle",
        Scene(
            [seen("GPU-a", (0, 60)), seen("GPU-b", (0, 60), "astro/fit")],
            inventory=[Listed(gpus="3", minutes=(0, 60))],
            allocations=[down((0, 60), gpus="1"), down((30, 60), gpus="1")],
        ),
        {"fleet": fleet(capacity=3, allocated=1, down=1.5, idle=0.5, unobserved=0)},
    ),
    Case(
        "more down than is free is a conflict",
        Scene([seen("GPU-a", (0, 60), "astro/fit"), seen("GPU-b", (0, 60))], allocations=[down((0, 60), gpus="2")]),
        {"fleet": fleet(allocated=1, down=1, idle=0), "findings": [finding("conflicting_owner", count=1)]},
    ),
    Case(
        "a guess never lands on a device that is down",
        Scene(
            [seen("GPU-a", (0, 60)), seen("GPU-b", (0, 60))],
            allocations=[down((0, 60), "GPU-a"), Allocation((0, 60), tenant="bio", workload="fold")],
        ),
        {"fleet": fleet(allocated=1, down=1, idle=0), "tenants": [tenant("bio", allocated=1)]},
    ),
    Case(
        "the inventory's name for a model prices the device",
        Scene(
            [seen("GPU-a", (0, 60), "astro/fit", model="")],
            inventory=[Listed(device="GPU-a", model=A100, minutes=(0, 60))],
            config={"rates": [{"model": "*a100*", "on_demand": "1.50"}]},
        ),
        {"tenants": [tenant("astro", usage="1.50")]},
    ),
]
