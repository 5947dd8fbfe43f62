"""What a sample says and for how long: validity, gaps, duplicates, energy, readings that can't be believed."""

from __future__ import annotations

from typing import Final

from tests.pipelines.cases import Case, finding, fleet, tenant, workload
from tests.pipelines.scene import START, Scene, seen

MINUTE_INTERVAL: Final = {"scrape_interval": "60s"}

CASES: Final = [
    Case(
        "one device for an hour and a half",
        Scene([seen("GPU-a", (0, 90), "astro/fit", util=40)]),
        {
            "fleet": fleet(capacity=1.5, allocated=1.5, idle=0, devices=1, cost="4.50", billed="4.50", unbilled="0.00"),
            "tenants": [
                tenant(
                    "astro",
                    allocated=1.5,
                    active=0.6,
                    on_demand=1.5,
                    utilization=0.4,
                    coverage=1,
                    waste="2.70",
                    usage="4.50",
                    total="4.50",
                    workloads=[workload("astro/fit", 1.5, cost="4.50", utilization=0.4)],
                )
            ],
        },
    ),
    Case(
        "impossible utilisation is dropped, never clamped into the mean",
        Scene([seen("GPU-a", (0, 5), "astro/fit", util=[30, 4294967295, 2147483633, "NaN", 90])]),
        {
            "tenants": [tenant("astro", allocated=0.083333, utilization=0.6, coverage=0.4)],
            "findings": [finding("invalid_sample", count=3)],
        },
    ),
    Case(
        "an int64 blank of a temperature is counted and changes nothing else",
        Scene(
            [
                seen("GPU-a", (0, 4), "astro/fit"),
                seen("GPU-a", (0, 4), "astro/fit", DCGM_FI_DEV_MEMORY_TEMP=["9223372036854775794", 41]),
            ]
        ),
        {
            "tenants": [tenant("astro", utilization=0.5, coverage=1)],
            "findings": [finding("invalid_sample", count=1)],
        },
    ),
    Case(
        "a powered card is not at 0 °C, but may be at the limit of its temperature",
        Scene(
            [
                seen("GPU-a", (0, 4), "astro/fit", power=300, temperature=[40, 0, 40, 40]),
                seen("GPU-a", (0, 4), "astro/fit", DCGM_FI_DEV_GPU_TEMP_MARGIN_CELSIUS=0),
            ]
        ),
        {"findings": [finding("invalid_sample", count=1)]},
    ),
    Case(
        "a ratio up to 1.02 counts as 1, one above is none",
        Scene([seen("GPU-a", (0, 4), "astro/fit", engine=[1.01, 1.03, 0.5, 0.5])]),
        {
            "tenants": [tenant("astro", utilization=0.666667, coverage=0.75)],
            "findings": [finding("invalid_sample", count=1)],
        },
    ),
    Case(
        "a series that vanishes is unknown and not 0",
        Scene(
            [
                seen("GPU-a", (0, 60), "astro/fit", temperature=55),
                seen("GPU-a", (0, 30), "astro/fit", util=80),
            ]
        ),
        {"tenants": [tenant("astro", allocated=1, active=0.8, utilization=0.8, coverage=0.5)]},
    ),
    Case(
        "a hole lowers the coverage and neither the bill nor the mean",
        Scene([seen("GPU-a", (0, 20), "astro/fit", util=80), seen("GPU-a", (35, 60), "astro/fit", util=80)]),
        {
            "fleet": fleet(capacity=1, allocated=1, unobserved=0),
            "tenants": [tenant("astro", allocated=1, utilization=0.8, coverage=0.75, usage="3.00")],
            "findings": [finding("gap", count=1)],
        },
    ),
    Case(
        "a next sample within one and a half intervals continues the series",
        Scene([seen("GPU-a", (0, 7), "astro/fit", every=1.4)], config=MINUTE_INTERVAL),
        {"tenants": [tenant("astro", allocated=0.11, coverage=1)]},
    ),
    Case(
        "a later next sample leaves a hole after one interval",
        Scene([seen("GPU-a", (0, 8), "astro/fit", every=1.6)], config=MINUTE_INTERVAL),
        {
            "tenants": [tenant("astro", allocated=0.123333, coverage=0.675676)],
            "findings": [finding("gap", count=4)],
        },
    ),
    Case(
        "a lone sample stands for a minute",
        Scene([seen("GPU-a", (0, 1), "astro/fit")]),
        {"fleet": fleet(capacity=0.016667, allocated=0.016667)},
    ),
    Case(
        "the interval is the series' own spacing",
        Scene([seen("GPU-a", (0, 60), "astro/fit", every=5)]),
        {"tenants": [tenant("astro", allocated=1, coverage=1)]},
    ),
    Case(
        "of two values of one series at one time the smaller counts",
        Scene([seen("GPU-a", (0, 60), "astro/fit", util=20), seen("GPU-a", (10, 11), "astro/fit", util=90)]),
        {
            "tenants": [tenant("astro", allocated=1, utilization=0.2)],
            "findings": [finding("duplicate_sample", count=1)],
        },
    ),
    Case(
        "two scrape jobs show one device once",
        Scene(
            [
                seen("GPU-a", (0, 60), "astro/fit", util=30, labels={"job": "dcgm"}),
                seen("GPU-a", (0, 60), "astro/fit", util=70, labels={"job": "opencost"}),
            ]
        ),
        {"fleet": fleet(capacity=1, devices=1), "tenants": [tenant("astro", allocated=1, utilization=0.3)]},
    ),
    Case(
        "a second replica fills the first one's hole, and no more",
        Scene(
            [
                seen("GPU-a", (0, 20), "astro/fit", util=60, labels={"prometheus_replica": "a"}),
                seen("GPU-a", (40, 60), "astro/fit", util=60, labels={"prometheus_replica": "a"}),
                seen("GPU-a", (0.25, 60), "astro/fit", util=90, labels={"prometheus_replica": "b"}),
            ]
        ),
        {
            "fleet": fleet(capacity=1, devices=1),
            "tenants": [tenant("astro", allocated=1, utilization=0.7, coverage=1)],
        },
    ),
    Case(
        "one node under two host names is one node",
        Scene(
            [
                seen(device, (0, 60), owner, node=node)
                for device, owner in (("GPU-a", "astro/fit"), ("GPU-b", "bio/fold"))
                for node in ("10.0.0.5:9400", "rack1")
            ]
        ),
        {
            "fleet": fleet(capacity=2, allocated=2, devices=2),
            "tenants": [tenant("astro", allocated=1), tenant("bio", allocated=1)],
        },
    ),
    Case(
        "a line that is no sample is counted and the rest kept",
        Scene([seen("GPU-a", (0, 10), "astro/fit")], raw=['DCGM_FI_DEV_GPU_UTIL{gpu="0"} MIG-GPU-x/3']),
        {"tenants": [tenant("astro", allocated=0.166667)], "findings": [finding("bad_line", count=1)]},
    ),
    Case(
        "an energy counter is in millijoules",
        Scene([seen("GPU-a", (0, 2), "astro/fit", energy=[1_000_000, 4_600_000])]),
        {"fleet": fleet(energy_kwh=0.001), "tenants": [tenant("astro", energy_kwh=0.001)]},
    ),
    Case(
        "after a counter's reset its new value is the increase",
        Scene([seen("GPU-a", (0, 3), "astro/fit", energy=[2_000_000_000, 2_600_000_000, 40_000_000])]),
        {"fleet": fleet(energy_kwh=0.177778), "findings": [finding("counter_reset", count=1)]},
    ),
    Case(
        "without a counter energy is power × time",
        Scene([seen("GPU-a", (0, 30), "astro/fit", power=400)]),
        {"fleet": fleet(energy_kwh=0.2), "tenants": [tenant("astro", energy_kwh=0.2)]},
    ),
    Case(
        "a counter's energy is cut where a lease ends, what nobody held then is idle's",
        Scene(
            [
                seen("GPU-a", (0, 30), "astro/fit", util=50, energy=lambda m: 1_000_000 + m * 12_000_000),
                seen("GPU-a", (30, 61), util=0, energy=lambda m: 1_000_000 + m * 12_000_000),
            ]
        ),
        {"fleet": fleet(energy_kwh=0.2), "tenants": [tenant("astro", energy_kwh=0.1)]},
    ),
    Case(
        "engine activity of 0 for an hour while GPU_UTIL is above is the wrong one",
        Scene([seen("GPU-a", (0, 60), "astro/fit", engine=0, util=70)]),
        {
            "tenants": [tenant("astro", utilization=0.7, coverage=1)],
            "findings": [finding("contradicting_series", count=1)],
        },
    ),
    Case(
        "for less than an hour engine activity counts",
        Scene([seen("GPU-a", (0, 59), "astro/fit", engine=0, util=70)]),
        {"tenants": [tenant("astro", active=0, utilization=0, coverage=1)]},
    ),
    Case(
        "readings that stand still are not observed, from the first repeated one on",
        Scene(
            [
                seen(
                    "GPU-a",
                    (0, 30),
                    "astro/fit",
                    util=50,
                    power=200,
                    energy=lambda m: 1_000_000_000 + min(m, 10) * 12_000_000,
                )
            ]
        ),
        {
            "fleet": fleet(capacity=0.5, allocated=0.5),
            "tenants": [tenant("astro", allocated=0.5, utilization=0.5, coverage=0.366667)],
            "findings": [finding("frozen_series", count=1)],
        },
    ),
    Case(
        "a frozen device that nobody holds is unobserved and not idle",
        Scene([seen("GPU-a", (0, 30), util=0, power=200, energy=lambda m: 1_000_000_000 + min(m, 10) * 12_000_000)]),
        {"fleet": fleet(capacity=0.5, idle=0.183333, unobserved=0.316667)},
    ),
    Case(
        "a counter that never moved is not frozen",
        Scene([seen("GPU-a", (0, 30), "astro/fit", util=50, power=200, energy=1_000_000_000)]),
        {"tenants": [tenant("astro", coverage=1)]},
    ),
    Case(
        "samples of a second day have an interval of their own",
        Scene(
            [
                seen("GPU-a", (0, 60), "astro/fit", uid="u1"),
                seen("GPU-a", (60, 180), "astro/fit", uid="u1", every=10),
            ],
            start=START.replace(hour=23),
        ),
        {"tenants": [tenant("astro", allocated=3, coverage=1)]},
    ),
]
