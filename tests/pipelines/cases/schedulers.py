"""Slurm's accounting and allocations files: the truth for the workloads that they name, whatever labels say."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from tests.pipelines.cases import Case, finding, fleet, tenant, workload
from tests.pipelines.scene import A100, Allocation, Job, Listed, Scene, seen

TWO_FREE: Final = [seen(device, (0, 60), util=30) for device in ("GPU-a", "GPU-b")]

CASES: Final = [
    Case(
        "typed and plain gres are one; a step and a job without GPUs are none",
        Scene(
            jobs=[
                Job("1", (0, 60), "gres/gpu:a100=1,gres/gpu=1"),
                Job("2", (0, 60), "gres/gpu:a100=2,gres/gpu:h100=1"),
                Job("3", (0, 60), "gres/gpu=5,gres/gpu:a100=2,gres/gpu:h100=3", account="bio"),
                Job("3.batch", (0, 60), "gres/gpu:a100=2", account="bio"),
                Job("4", (0, 60), "mem=8G"),
            ],
            config={"rates": [{"model": "*a100*", "on_demand": "2.00"}, {"model": "*h100*", "on_demand": "4.00"}]},
        ),
        {
            "fleet": fleet(capacity=9, allocated=9),
            "tenants": [
                tenant(
                    "astro", usage="10.00", workloads=[workload("1", 1, cost="2.00"), workload("2", 3, cost="8.00")]
                ),
                tenant("bio", usage="16.00", workloads=[workload("3", 5)]),
            ],
        },
    ),
    Case(
        "every run of a requeued job counts",
        Scene(
            jobs=[
                Job("9", (0, 20), "gres/gpu=2", state="REQUEUED"),
                Job("9", (25, 40), "gres/gpu=2", state="NODE_FAIL"),
                Job("9", (45, 75), "gres/gpu=2"),
            ]
        ),
        {"tenants": [tenant("astro", allocated=2.166667, usage="6.50", workloads=[workload("9", 2.166667)])]},
    ),
    Case(
        "of two records of one run the ended one wins",
        Scene(jobs=[Job("9", (0, 50), state="RUNNING"), Job("9", (0, 40))]),
        {"tenants": [tenant("astro", allocated=0.666667)]},
    ),
    Case(
        "of two running ones the longer",
        Scene(jobs=[Job("9", (0, 50), state="RUNNING"), Job("9", (0, 20), state="RUNNING")]),
        {"tenants": [tenant("astro", allocated=0.833333)]},
    ),
    Case(
        "a job that runs no process is held all the same, and nobody knows how busy it was",
        Scene(jobs=[Job("5", (0, 120), "gres/gpu=4")]),
        {
            "fleet": fleet(capacity=8, allocated=8, devices=4),
            "tenants": [
                tenant("astro", allocated=8, active=None, utilization=None, coverage=0, waste=None, usage="24.00")
            ],
        },
    ),
    Case(
        "labels that come late and linger don't move a job's ends",
        Scene(
            [
                seen("GPU-a", (0, 10), util=80),
                seen("GPU-a", (10, 45), job="71", util=80),
                seen("GPU-a", (45, 60), job="72", util=20),
            ],
            jobs=[Job("71", (0, 30)), Job("72", (40, 60), account="bio")],
        ),
        {
            "fleet": fleet(capacity=1, allocated=0.833333, idle=0.166667),
            "tenants": [
                tenant("astro", allocated=0.5, utilization=0.8, coverage=1),
                tenant("bio", allocated=0.333333, coverage=1),
            ],
        },
    ),
    Case(
        "a job is on the device that its label is on, whatever the index",
        Scene(
            [seen("GPU-a", (0, 60), util=0), seen("GPU-b", (0, 60), job="1", util=97)],
            jobs=[Job("1", (0, 60))],
        ),
        {"fleet": fleet(allocated=1, idle=1), "tenants": [tenant("astro", utilization=0.97, coverage=1)]},
    ),
    Case(
        "a job without labels takes a free device of its node, which says nothing of its use",
        Scene(TWO_FREE, jobs=[Job("5", (0, 60))]),
        {
            "fleet": fleet(capacity=2, allocated=1, idle=1),
            "tenants": [tenant("astro", allocated=1, utilization=None, coverage=0)],
        },
    ),
    Case(
        "with the whole node it is known",
        Scene(TWO_FREE, jobs=[Job("5", (0, 60), "gres/gpu=2")]),
        {"tenants": [tenant("astro", allocated=2, utilization=0.3, coverage=1)]},
    ),
    Case(
        "GPUs are split evenly over the nodes of a job",
        Scene(
            [seen(f"GPU-{node}{n}", (0, 60), util=10, node=node) for node in ("rack1", "rack2") for n in range(3)],
            jobs=[Job("5", (0, 60), "gres/gpu=4", nodes="rack[1-2]"), Job("6", (0, 60), nodes="rack2", account="bio")],
        ),
        {
            "fleet": fleet(capacity=6, allocated=5, idle=1),
            "tenants": [tenant("astro", allocated=4), tenant("bio", allocated=1)],
        },
    ),
    Case(
        "what doesn't fit on a node is a conflict and never capacity",
        Scene(TWO_FREE, jobs=[Job("5", (0, 60), "gres/gpu=3")]),
        {
            "fleet": fleet(capacity=2, allocated=2),
            "tenants": [tenant("astro", allocated=2, utilization=0.3)],
            "findings": [finding("conflicting_owner", count=1)],
        },
    ),
    Case(
        "a job that got what another left has not the whole node, however much it asked for",
        Scene(
            [seen("GPU-a", (0, 60), util=30), seen("GPU-b", (0, 60), job="6", util=70)],
            jobs=[Job("5", (0, 60), "gres/gpu=2"), Job("6", (0, 60), account="bio")],
        ),
        {
            "fleet": fleet(capacity=2, allocated=2),
            "tenants": [tenant("astro", allocated=1, utilization=None, coverage=0), tenant("bio", utilization=0.7)],
            "findings": [finding("conflicting_owner", count=1)],
        },
    ),
    Case(
        "a guess is by model",
        Scene(
            [seen("GPU-a", (0, 60), util=10), seen("GPU-b", (0, 60), util=10, model=A100)],
            jobs=[Job("5", (0, 60), "gres/gpu:a100=1,gres/gpu=1")],
            config={"rates": [{"model": "*A100*", "on_demand": "1.00"}, {"model": "*", "on_demand": "9.00"}]},
        ),
        {"tenants": [tenant("astro", usage="1.00")]},
    ),
    Case(
        "a job that runs is held to start + ElapsedRaw",
        Scene(TWO_FREE, jobs=[Job("5", (0, 40), state="RUNNING")]),
        {"tenants": [tenant("astro", allocated=0.666667)]},
    ),
    Case(
        "Slurm's word for a node makes what it doesn't hold there idle",
        Scene(jobs=[Job("5", (0, 60))], inventory=[Listed(gpus="3", minutes=(0, 60))]),
        {"fleet": fleet(capacity=3, allocated=1, idle=2, unobserved=0)},
    ),
    Case(
        "an allocations file speaks only for what it lists",
        Scene(
            allocations=[Allocation((0, 60), device="GPU-a", tenant="astro", workload="w")],
            inventory=[Listed(device="GPU-a", minutes=(0, 60)), Listed(device="GPU-b", minutes=(0, 60))],
        ),
        {"fleet": fleet(capacity=2, allocated=1, idle=0, unobserved=1)},
    ),
    Case(
        "a pod's allocation ends where its file says, however long its label lingers",
        Scene(
            [seen("GPU-a", (0, 60), "astro/fit", util=20)],
            allocations=[Allocation((0, 30), device="GPU-a", workload="astro/fit")],
        ),
        {
            "fleet": fleet(capacity=1, allocated=0.5, idle=0.5),
            "tenants": [tenant("astro", allocated=0.5, workloads=[workload("astro/fit", 0.5)])],
        },
    ),
    Case(
        "an allocation pushes the labels of another out of its device, and says so",
        Scene(
            [seen("GPU-a", (0, 60), "astro/fit")],
            allocations=[Allocation((30, 60), device="GPU-a", tenant="bio", workload="fold")],
        ),
        {
            "tenants": [tenant("astro", allocated=0.5), tenant("bio", allocated=0.5)],
            "findings": [finding("conflicting_owner", count=1)],
        },
    ),
    Case(
        "an allocation of half a device",
        Scene(
            [seen("GPU-a", (0, 60), util=40)],
            allocations=[Allocation((0, 60), "0.5", "GPU-a", tenant="bio", workload="fold")],
        ),
        {"fleet": fleet(allocated=0.5, idle=0.5), "tenants": [tenant("bio", allocated=0.5, utilization=0.4)]},
    ),
    Case(
        "an allocation of a model that nobody has adds what it holds",
        Scene(
            [seen("GPU-a", (0, 60))],
            allocations=[Allocation((0, 60), "2", model="NVIDIA B200", tenant="bio", workload="far")],
        ),
        {"fleet": fleet(capacity=3, allocated=2, idle=1, devices=3)},
    ),
    Case(
        "a tenant that the configuration doesn't know pays nothing",
        Scene(allocations=[Allocation((0, 60), tenant="gone", workload="w")]),
        {"fleet": fleet(allocated=1, billed="0.00", unbilled="3.00"), "unattributed_gpu_hours": 1},
    ),
    Case(
        "two schedulers on one device conflict and share it",
        Scene(
            allocations=[
                Allocation((0, 60), device="GPU-a", tenant="astro", workload="one"),
                Allocation((0, 60), device="GPU-a", tenant="bio", workload="two"),
            ]
        ),
        {
            "fleet": fleet(capacity=1, allocated=1),
            "tenants": [tenant("astro", allocated=0.5), tenant("bio", allocated=0.5)],
            "findings": [finding("conflicting_owner", count=1)],
        },
    ),
    Case(
        "accounting that tracks no GPUs is said aloud",
        Scene(TWO_FREE, jobs=[Job("5", (0, 60), "mem=800G")]),
        {"fleet": fleet(allocated=0, idle=2), "findings": [finding("gpus_not_tracked")]},
    ),
    Case(
        "a job over the hour that the clock repeats lasts as long as ElapsedRaw says",
        Scene(
            jobs=[Job("5", (0, 120))],
            config={"timezone": "America/New_York"},
            start=datetime(2026, 11, 1, 4, 30, tzinfo=UTC),
        ),
        {"tenants": [tenant("astro", allocated=2)]},
    ),
    Case(
        "an array task goes by the name that people see and the id that labels have",
        Scene(
            [seen("GPU-a", (0, 60), job="1207", util=60), seen("GPU-b", (0, 60), util=0)],
            jobs=[Job("1200_7", (0, 60), raw="1207")],
        ),
        {"tenants": [tenant("astro", utilization=0.6, workloads=[workload("1200_7", 1)])]},
    ),
    Case(
        "one job id on two accounts is two clusters' or a mistake, and never billed twice",
        Scene(TWO_FREE, jobs=[Job("5", (0, 60)), Job("5", (0, 60))]),
        {"fleet": fleet(allocated=1)},
    ),
]
