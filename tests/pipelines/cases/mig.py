"""MIG: how much of a card an instance is, what is stranded, what a new layout does."""

from __future__ import annotations

from typing import Final

from tests.pipelines.cases import Case, finding, fleet, tenant, workload
from tests.pipelines.scene import A30, H100, Job, Scene, Series, seen

SEVEN: Final = {"rates": [{"model": "*", "on_demand": "7.00"}]}


def held(instance: str, profile: str, owner: str, *, model: str = H100, engine: float = 0.5) -> Series:
    return seen("GPU-a", (0, 60), owner, model=model, instance=instance, profile=profile, engine=engine)


CASES: Final = [
    Case(
        "an instance weighs its compute or its memory slices, whichever is more; the rest is stranded",
        Scene([held("2", "4g.40gb", "astro/a"), held("5", "2g.20gb", "bio/b")], config=SEVEN),
        {
            "fleet": fleet(
                capacity=1, allocated=0.857143, stranded=0.142857, devices=1, billed="6.00", unbilled="1.00"
            ),
            "tenants": [tenant("astro", allocated=0.571429, usage="4.00"), tenant("bio", usage="2.00")],
        },
    ),
    Case(
        "weights beyond the card are scaled down to it",
        Scene([held("2", "4g.40gb", "astro/a"), held("1", "3g.40gb", "bio/b")]),
        {
            "fleet": fleet(allocated=1, stranded=0),
            "tenants": [tenant("astro", allocated=0.533333), tenant("bio", allocated=0.466667)],
        },
    ),
    *(
        Case(
            f"by {by} alone",
            Scene(
                [held("2", "3g.40gb", "astro/a"), held("5", "1g.20gb", "bio/b")],
                config={"mig": {"weight": by}},
            ),
            {
                "fleet": fleet(stranded=stranded),
                "tenants": [tenant("astro", allocated=astro), tenant("bio", allocated=bio)],
            },
        )
        for by, astro, bio, stranded in (("compute", 0.428571, 0.142857, 0.428571), ("memory", 0.5, 0.25, 0.25))
    ),
    Case(
        "an A30 has four slices of each",
        Scene([held("3", "1g.6gb", "astro/a", model=A30), held("1", "2g.12gb", "bio/b", model=A30)]),
        {
            "fleet": fleet(stranded=0.25),
            "tenants": [tenant("astro", allocated=0.25), tenant("bio", allocated=0.5)],
        },
    ),
    Case(
        "an instance that nobody holds is idle and not stranded",
        Scene([held("2", "4g.40gb", "astro/a"), held("5", "2g.20gb", "")]),
        {"fleet": fleet(allocated=0.571429, idle=0.285714, stranded=0.142857)},
    ),
    Case(
        "a card in MIG mode without instances is idle; a layout stands from its first scrape on",
        Scene(
            [
                seen("GPU-a", (0, 60), engine=0),
                seen("GPU-a", (30, 60), "astro/a", instance="0", profile="7g.80gb", engine=0.5),
            ]
        ),
        {"fleet": fleet(capacity=1, idle=0.5, allocated=0.5), "tenants": [tenant("astro", utilization=0.5)]},
    ),
    Case(
        "the parent's series is no device of its own",
        Scene([seen("GPU-a", (0, 60), engine=0.9), held("0", "7g.80gb", "astro/a", engine=0.4)]),
        {"fleet": fleet(capacity=1, allocated=1, devices=1), "tenants": [tenant("astro", utilization=0.4)]},
    ),
    Case(
        "an instance id that a new layout uses again is another instance",
        Scene(
            [
                seen("GPU-a", (0, 30), "astro/a", instance="1", profile="3g.40gb"),
                seen("GPU-a", (30, 60), "astro/a", instance="1", profile="2g.20gb"),
            ]
        ),
        {
            "fleet": fleet(allocated=0.392857, stranded=0.607143, devices=1),
            "tenants": [tenant("astro", workloads=[workload("astro/a", 0.392857)])],
        },
    ),
    Case(
        "instances without the busy metric lower the coverage and not the mean",
        Scene(
            [
                *(held(str(n), "1g.10gb", f"astro/p{n}", engine=0.6) for n in range(5)),
                *(
                    seen("GPU-a", (0, 60), f"astro/p{n}", instance=str(n), profile="1g.10gb", memory=900)
                    for n in (5, 6)
                ),
            ],
            config={"mig": {"weight": "compute"}},
        ),
        {"tenants": [tenant("astro", allocated=1, utilization=0.6, coverage=0.714286)]},
    ),
    Case(
        "a board's energy counts once, split by weight × activity",
        Scene(
            [
                seen("GPU-a", (0, 60), who, instance=gi, profile="3g.40gb", engine=engine, power=100)
                for who, gi, engine in (("astro/a", "1", 0.8), ("bio/b", "2", 0.2))
            ]
        ),
        {
            "fleet": fleet(energy_kwh=0.1),
            "tenants": [tenant("astro", energy_kwh=0.08), tenant("bio", energy_kwh=0.02)],
        },
    ),
    Case(
        "an instance's ratio and a card's percentage are of one scale",
        Scene([held("0", "7g.80gb", "astro/a", engine=0.85), seen("GPU-b", (0, 60), "bio/b", util=60)]),
        {"tenants": [tenant("astro", utilization=0.85), tenant("bio", utilization=0.6)]},
    ),
    Case(
        "a job labelled on one instance holds that instance alone",
        Scene(
            [
                held("7", "1g.10gb", ""),
                held("8", "1g.10gb", ""),
                seen("GPU-a", (0, 60), job="77", instance="9", profile="1g.10gb", engine=0.3),
            ],
            jobs=[Job("77", (0, 60), gres="gres/gpu:1g.10gb=1,gres/gpu=1")],
        ),
        {
            "fleet": fleet(capacity=1, allocated=0.142857, idle=0.285714, stranded=0.571429),
            "tenants": [tenant("astro", allocated=0.142857, utilization=0.3, coverage=1)],
        },
    ),
    Case(
        "an unknown profile counts as the smallest slice",
        Scene([held("7", "", "astro/a")], config=SEVEN),
        {"tenants": [tenant("astro", allocated=0.142857, usage="1.00")]},
    ),
    Case(
        "readings of an instance that can't be are dropped there alone",
        Scene([held("1", "3g.40gb", "astro/a", engine=7), held("2", "3g.40gb", "bio/b", engine=0.25)]),
        {
            "tenants": [tenant("astro", utilization=None, coverage=0, waste=None), tenant("bio", utilization=0.25)],
            "findings": [finding("invalid_sample", count=60)],
        },
    ),
]
