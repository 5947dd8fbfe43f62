"""Who held a device by its labels: whose pod it is, holes and flickers, time slices, who pays."""

from __future__ import annotations

from typing import Final

from tests.pipelines.cases import Case, finding, fleet, tenant, workload
from tests.pipelines.scene import Listed, Scene, at, seen

FOUR_SLOTS: Final = [Listed(device="GPU-a", slots="4", minutes=(0, 60))]

CASES: Final = [
    Case(
        "the workload is in the exported labels, the plain ones are the exporter's own",
        Scene(
            [
                seen(
                    "GPU-a",
                    (0, 60),
                    "monitoring/gpu-probe-1",
                    labels={"exported_namespace": "bio", "exported_pod": "fold-0", "exported_container": "main"},
                )
            ]
        ),
        {"tenants": [tenant("bio", allocated=1, workloads=[workload("bio/fold-0", 1)])]},
    ),
    Case(
        "an exporter's own pod holds nothing",
        Scene([seen("GPU-a", (0, 60), "astro-monitoring/nvidia-dcgm-exporter-x2", util=0)]),
        {"fleet": fleet(idle=1, allocated=0, billed="0.00"), "unattributed_gpu_hours": 0},
    ),
    Case(
        "which pods are exporters is configured",
        Scene(
            [
                seen("GPU-a", (0, 60), "astro/probe-7"),
                seen("GPU-b", (0, 60), "astro/nvidia-dcgm-exporter-x2"),
            ],
            config={"attribution": {"exporter_pods": ["probe-*"]}},
        ),
        {
            "fleet": fleet(idle=1),
            "tenants": [tenant("astro", workloads=[workload("astro/nvidia-dcgm-exporter-x2", 1)])],
        },
    ),
    Case(
        "an unlabelled series of a labelled device doesn't free it",
        Scene([seen("GPU-a", (0, 60), temperature=50), seen("GPU-a", (0, 60), "astro/fit", util=30)]),
        {"fleet": fleet(allocated=1, idle=0), "tenants": [tenant("astro", allocated=1, utilization=0.3)]},
    ),
    Case(
        "on a shared device another owner's samples don't part a lease by themselves",
        Scene(
            [
                *(seen("GPU-a", minutes, "astro/fit") for minutes in ((0, 10), (13, 20))),  # a hole below `flicker`
                *(seen("GPU-a", minutes, "bio/fold") for minutes in ((0, 4), (10, 13))),  # one above it
            ]
        ),
        {
            "fleet": fleet(allocated=20 / 60, idle=0),
            "tenants": [
                tenant("astro", allocated=16.5 / 60, workloads=[workload("astro/fit", 16.5 / 60)]),
                tenant("bio", allocated=3.5 / 60, workloads=[workload("bio/fold", 3.5 / 60)]),
            ],
        },
    ),
    Case(
        "two pods of one name are not joined over the hole between them",
        Scene([seen("GPU-a", (0, 20), "astro/fit", uid="u1"), seen("GPU-a", (40, 55), "astro/fit", uid="u2")]),
        {
            "fleet": fleet(capacity=0.916667, allocated=0.583333, unobserved=0.333333),
            "tenants": [tenant("astro", allocated=0.583333, workloads=[workload("astro/fit", 0.583333)])],
        },
    ),
    Case(
        "one pod UID is bridged over any hole",
        Scene([seen("GPU-a", (0, 10), "astro/fit", uid="u1"), seen("GPU-a", (200, 210), "astro/fit", uid="u1")]),
        {"tenants": [tenant("astro", allocated=3.5, coverage=0.095238)]},
    ),
    Case(
        "a hole of thirty minutes is bridged for an owner known by name alone",
        Scene([seen("GPU-a", (0, 10), "astro/fit"), seen("GPU-a", (40, 50), "astro/fit")]),
        {"fleet": fleet(allocated=0.833333, unobserved=0)},
    ),
    Case(
        "a longer one is not",
        Scene([seen("GPU-a", (0, 10), "astro/fit"), seen("GPU-a", (41, 51), "astro/fit")]),
        {"fleet": fleet(capacity=0.85, allocated=0.333333, unobserved=0.516667)},
    ),
    Case(
        "five minutes without labels are bridged",
        Scene([seen("GPU-a", (0, 20), "astro/fit"), seen("GPU-a", (20, 25)), seen("GPU-a", (25, 40), "astro/fit")]),
        {"fleet": fleet(allocated=0.666667, idle=0)},
    ),
    Case(
        "six are not, whatever the identity",
        Scene(
            [
                seen("GPU-a", (0, 20), "astro/fit", uid="u1"),
                seen("GPU-a", (20, 26)),
                seen("GPU-a", (26, 40), "astro/fit", uid="u1"),
            ]
        ),
        {"fleet": fleet(allocated=0.566667, idle=0.1)},
    ),
    Case(
        "another owner ends the lease, and the first one's return is a new one",
        Scene(
            [
                seen("GPU-a", (0, 20), "astro/fit", uid="u1"),
                seen("GPU-a", (20, 40), "bio/fold", uid="u2"),
                seen("GPU-a", (40, 60), "astro/fit", uid="u1"),
            ]
        ),
        {
            "fleet": fleet(allocated=1),
            "tenants": [
                tenant("astro", allocated=0.666667, usage="2.00"),
                tenant("bio", allocated=0.333333, usage="1.00"),
            ],
        },
    ),
    Case(
        "a workload that no selector matches stays unbilled",
        Scene([seen("GPU-a", (0, 60), "stray/x"), seen("GPU-b", (0, 60), "astro/fit")]),
        {
            "fleet": fleet(allocated=2, cost="6.00", billed="3.00", unbilled="3.00"),
            "unattributed_gpu_hours": 1,
            "findings": [finding("unresolved_owner", count=1)],
        },
    ),
    Case(
        "the first match in file order wins; a star matches no absent label",
        Scene(
            [seen("GPU-a", (0, 60), "astro/fit")],
            config={
                "tenants": [
                    {"id": "slurm", "match": [{"slurm_account": "*"}]},
                    {"id": "k8s", "match": [{"namespace": "*", "pod": "f?t"}]},
                    {"id": "astro", "match": [{"namespace": "astro"}]},
                ]
            },
        ),
        {"tenants": [tenant("k8s", allocated=1)]},
    ),
    Case(
        "a lease changes tenant where its selectors do",
        Scene(
            [seen("GPU-a", (0, 60), "lab/fit")],
            config={
                "tenants": [
                    {"id": "astro", "match": [{"namespace": "lab", "to": at(15)}]},
                    {"id": "bio", "match": [{"namespace": "lab", "from": at(15)}]},
                ]
            },
        ),
        {"tenants": [tenant("astro", allocated=0.25, usage="0.75"), tenant("bio", allocated=0.75, usage="2.25")]},
    ),
    Case(
        "a workload name used in two clusters says its cluster",
        Scene(
            [seen("GPU-a", (0, 60), "astro/fit")],
            config={
                "sources": [
                    {"metrics": "metrics.prom", "cluster": "east"},
                    {"metrics": "metrics.prom", "cluster": "west"},
                ]
            },
        ),
        {
            "fleet": fleet(devices=2, capacity=2),
            "tenants": [tenant("astro", workloads=[workload("east:astro/fit", 1), workload("west:astro/fit", 1)])],
            "findings": [finding("duplicate_device")],
        },
    ),
    Case(
        "three of four time slices are three quarters of a GPU",
        Scene([seen("GPU-a", (0, 60), f"{who}") for who in ("astro/a", "astro/b", "bio/c")], inventory=FOUR_SLOTS),
        {
            "fleet": fleet(capacity=1, allocated=0.75, idle=0.25, devices=1, billed="2.25", unbilled="0.75"),
            "tenants": [tenant("astro", allocated=0.5, usage="1.50"), tenant("bio", allocated=0.25, usage="0.75")],
        },
    ),
    Case(
        "a pod with two slices holds two quarters",
        Scene(
            [
                seen("GPU-a", (0, 60), "astro/a", labels={"vgpu": "0"}),
                seen("GPU-a", (0, 60), "astro/a", labels={"vgpu": "1"}),
                seen("GPU-a", (0, 60), "bio/b", labels={"vgpu": "2"}),
            ],
            inventory=FOUR_SLOTS,
        ),
        {"tenants": [tenant("astro", allocated=0.5), tenant("bio", allocated=0.25)]},
    ),
    Case(
        "more slices than the inventory knows share the card",
        Scene([seen("GPU-a", (0, 60), f"astro/{pod}") for pod in "abcde"], inventory=FOUR_SLOTS),
        {"fleet": fleet(allocated=1, idle=0), "tenants": [tenant("astro", workloads=[workload("astro/e", 0.2)])]},
    ),
    Case(
        "without known slots a card is shared by whoever is there at each instant",
        Scene([seen("GPU-a", (0, 60), "astro/a"), seen("GPU-a", (30, 60), "bio/b")]),
        {"tenants": [tenant("astro", allocated=0.75), tenant("bio", allocated=0.25)]},
    ),
    Case(
        "the device's energy and activity, repeated for every sharing pod, count once",
        Scene(
            [seen("GPU-a", (0, 60), f"{who}", power=90, engine=0.6) for who in ("astro/a", "astro/b", "bio/c", "bio/d")]
        ),
        {
            "fleet": fleet(energy_kwh=0.09),
            "tenants": [
                tenant("astro", allocated=0.5, active=0.3, energy_kwh=0.045, utilization=0.6),
                tenant("bio", allocated=0.5, energy_kwh=0.045, workloads=[workload("bio/d", 0.25, utilization=0.6)]),
            ],
        },
    ),
    *(
        Case(
            f"a split by {split} is an estimate and says so",
            Scene(
                [
                    seen("GPU-a", (0, 60), "astro/a", memory=1000, util=20),
                    seen("GPU-a", (0, 60), "bio/b", memory=4000, util=80),
                ],
                config={"sharing": {"split": split}},
            ),
            {
                "tenants": [tenant("astro", allocated=0.2), tenant("bio", allocated=0.8)],
                "findings": [finding("estimated_share", count=1)],
            },
        )
        for split in ("memory", "utilization")
    ),
]
