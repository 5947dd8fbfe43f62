"""Rates, idle, overheads, energy and rounding: what hours cost and who pays."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from tests.pipelines.cases import Case, finding, fleet, tenant, workload
from tests.pipelines.cases.classes import RATES, held, reservation
from tests.pipelines.scene import A100, Allocation, Listed, Scene, at, seen


def idle(policy: str, expected: Sequence[Any], **parts: Any) -> Case:
    """Five listed GPUs of one hour: two held by astro, one by bio, two seen and idle, for 3.00 each."""
    scene = Scene(
        [*held(2), *held(1, "bio/fold", first=2), *held(2, "monitoring/dcgm-exporter-", first=3)],
        inventory=[Listed(device=f"GPU-{n:02}", owner="bio" if n == 3 else "", minutes=(0, 60)) for n in range(5)],
        config={"idle": {"policy": policy}},
    )
    return Case(f"idle by policy {policy}", scene, {"fleet": fleet(idle=2, cost="15.00", **parts), "tenants": expected})


CASES: Final = [
    Case(
        "the first entry that matches model and time wins, whatever the case of letters",
        Scene(
            [*held(1), seen("GPU-z", (0, 60), "bio/fold", model=A100)],
            config={
                "rates": [
                    {"model": "*h100*", "to": at(30), "on_demand": "2.00"},
                    {"model": "*h100*", "from": at(30), "on_demand": "4.00"},
                    {"model": "*", "on_demand": "1.00"},
                    {"model": "*A100*", "on_demand": "9.00"},
                ]
            },
        ),
        {"tenants": [tenant("astro", usage="3.00"), tenant("bio", usage="1.00")]},
    ),
    idle("platform", [tenant("astro", total="6.00"), tenant("bio", total="3.00")], billed="9.00", unbilled="6.00"),
    idle("even", [tenant("astro", idle="3.00"), tenant("bio", idle="3.00")], billed="15.00", unbilled="0.00"),
    idle("proportional", [tenant("astro", idle="4.00"), tenant("bio", idle="2.00")], unbilled="0.00"),
    idle("owner", [tenant("astro", idle="0.00"), tenant("bio", idle="3.00")], billed="12.00", unbilled="3.00"),
    Case(
        "idle that an unused reservation pays for already is not shared out",
        Scene(
            [*held(1), *held(1, "bio/fold", first=1), *held(2, "", first=2)],
            config={"rates": RATES, "reservations": [reservation(2)], "idle": {"policy": "even"}},
        ),
        {
            "fleet": fleet(idle=2, cost="12.00", billed="10.00"),
            "tenants": [tenant("astro", reserved_unused=1, idle="1.50", total="5.50"), tenant("bio", idle="1.50")],
        },
    ),
    Case(
        "by proportion, what nobody owns weighs as one tenant and its part stays unbilled",
        Scene(
            [*held(1), *held(2, "stray/x", first=1), *held(1, "", first=3)], config={"idle": {"policy": "proportional"}}
        ),
        {"fleet": fleet(idle=1, billed="4.00", unbilled="8.00"), "tenants": [tenant("astro", idle="1.00")]},
    ),
    Case(
        "stranded, down and unobserved are never shared",
        Scene(
            [seen("GPU-a", (0, 60), "astro/a", instance="2", profile="4g.40gb", engine=0.5)],
            inventory=[Listed(gpus="3", minutes=(0, 60))],
            allocations=[Allocation((0, 60), "1", workload="repair", class_="down")],
            config={"idle": {"policy": "even"}, "rates": [{"model": "*", "on_demand": "7.00"}]},
        ),
        {
            "fleet": fleet(stranded=0.428571, down=1, unobserved=1, idle=0, billed="4.00", unbilled="17.00"),
            "tenants": [tenant("astro", idle="0.00")],
        },
    ),
    Case(
        "an overhead split by three adds up to the cent",
        Scene(
            [*held(1), *held(1, "bio/f", first=1), *held(1, "chem/f", first=2)],
            config={
                "tenants": [{"id": t, "match": [{"namespace": t}]} for t in ("chem", "bio", "astro")],
                "overheads": [{"name": "storage", "monthly": "74400.00", "split": "even"}],  # 100.00 an hour of March
                "rates": [{"model": "*", "on_demand": "0.00"}],
            },
        ),
        {
            "fleet": fleet(cost="100.00", billed="100.00"),
            "tenants": [
                tenant("astro", overhead="33.34"),
                tenant("bio", overhead="33.33"),
                tenant("chem", overhead="33.33"),
            ],
        },
    ),
    Case(
        "an overhead by proportion follows allocated and reserved hours",
        Scene(
            [*held(1), *held(1, "bio/f", first=1)],
            config={
                "rates": RATES,
                "reservations": [reservation(3)],
                "overheads": [{"name": "storage", "monthly": "744.00", "split": "proportional"}],
            },
        ),
        {"tenants": [tenant("astro", overhead="0.75"), tenant("bio", overhead="0.25")]},
    ),
    Case(
        "an overhead of two months is of each by its length",
        Scene(
            [seen("GPU-a", (0, 2 * 1440), "astro/fit", every=60)],
            start=datetime(2026, 2, 28, tzinfo=UTC),
            config={"overheads": [{"name": "storage", "monthly": "868.00"}]},  # 31.00 a day of February, 28.00 of March
        ),
        {"tenants": [tenant("astro", overhead="59.00", usage="144.00")]},
    ),
    Case(
        "with no tenant there is nobody to share an overhead with",
        Scene([seen("GPU-a", (0, 60))], config={"overheads": [{"name": "storage", "monthly": "744.00"}]}),
        {"fleet": fleet(cost="4.00", billed="0.00", unbilled="4.00"), "tenants": []},
    ),
    Case(
        "energy is charged with PUE, and costs what is charged",
        Scene(
            [seen("GPU-a", (0, 60), "astro/fit", util=50, power=500), seen("GPU-b", (0, 60), util=0, power=500)],
            config={"energy": {"price_per_kwh": "0.40", "pue": "1.5", "carbon_g_per_kwh": "400", "charge": True}},
        ),
        {
            "fleet": fleet(energy_kwh=1, cost="6.60", billed="3.30", unbilled="3.30"),
            "tenants": [tenant("astro", energy="0.30", energy_kwh=0.5, co2e_kg=0.3)],
        },
    ),
    Case(
        "half a cent is rounded away from zero, once, on the line",
        Scene(
            [*held(1, "astro/a"), *held(1, "astro/b", first=1)],
            config={"rates": [{"model": "*", "on_demand": "1.0025"}]},
        ),
        {
            "tenants": [
                tenant(
                    "astro",
                    usage="2.01",
                    workloads=[workload("astro/a0", 1, cost="1.01"), workload("astro/b1", 1, cost="1.00")],
                )
            ]
        },
    ),
    *(
        Case(
            f"a line in {currency} has its minor unit",
            Scene(held(1), config={"currency": currency, "rates": [{"model": "*", "on_demand": "2.3455"}]}),
            {
                "fleet": fleet(cost=amount, billed=amount, unbilled=zero),
                "tenants": [tenant("astro", usage=amount, credit=zero)],
            },
        )
        for currency, amount, zero in (("JPY", "2", "0"), ("KWD", "2.346", "0.000"), ("EUR", "2.35", "0.00"))
    ),
    Case(
        "prices are exact however large or small",
        Scene(
            allocations=[
                Allocation((0, 60), model="H100", tenant="astro", workload="w"),
                Allocation((0, 60), model="A100", tenant="bio", workload="w"),
                Allocation((0, 6000), model="L4", tenant="chem", workload="w"),
            ],
            config={
                "tenants": [{"id": name} for name in ("astro", "bio", "chem")],
                "rates": [
                    {"model": "*H100*", "on_demand": "100.004999999999999999"},
                    {"model": "*A100*", "on_demand": "100.005"},
                    {"model": "*", "on_demand": "0.000277"},
                ],
            },
        ),
        {"tenants": [tenant("astro", usage="100.00"), tenant("bio", usage="100.01"), tenant("chem", usage="0.03")]},
    ),
    Case(
        "workloads are parts of their line to the cent",
        Scene(
            [seen("GPU-a", (20 * n, 20 * n + 20), f"astro/p{n}") for n in range(3)],
            config={"rates": [{"model": "*", "on_demand": "1.00"}]},
        ),
        {
            "tenants": [
                tenant(
                    "astro",
                    usage="1.00",
                    workloads=[
                        workload(f"astro/p{n}", 0.333333, cost=c) for n, c in enumerate(("0.34", "0.33", "0.33"))
                    ],
                )
            ]
        },
    ),
    Case(
        "what was held, used and wasted of ten hours",
        Scene(held(1, minutes=(0, 600), util=30), config={"rates": [{"model": "*", "on_demand": "2.00"}]}),
        {"tenants": [tenant("astro", allocated=10, active=3, usage="20.00", waste="14.00", utilization=0.3)]},
    ),
    Case(
        "waste is at the on-demand rate, of reserved GPUs too",
        Scene(held(1, util=25), config={"rates": RATES, "reservations": [reservation(1)]}),
        {
            "tenants": [
                tenant(
                    "astro", reserved=1, usage="0.00", waste="2.25", workloads=[workload("astro/fit0", 1, cost="2.00")]
                )
            ]
        },
    ),
    Case(
        "eight GPUs at 90 % are at 90 %",
        Scene([seen(f"GPU-{n}", (0, 60), f"astro/p{n}", engine=0.9) for n in range(8)]),
        {"tenants": [tenant("astro", utilization=0.9, active=7.2)]},
    ),
    Case(
        "a lease never observed is left out of active and waste, not counted as 0",
        Scene(
            held(1, util=50),
            allocations=[Allocation((0, 60), "3", model="NVIDIA B200", tenant="astro", workload="far")],
        ),
        {
            "tenants": [
                tenant("astro", allocated=4, active=0.5, utilization=0.5, coverage=0.25, waste="1.50", usage="12.00")
            ]
        },
    ),
    Case(
        "hours without a price are said and left out of cost and billed",
        Scene(
            [*held(1), seen("GPU-z", (0, 60), "bio/fold", model="Tesla T4")],
            config={"rates": [{"model": "*H100*", "on_demand": "3.00"}]},
        ),
        {
            "fleet": fleet(allocated=2, cost="3.00", billed="3.00"),
            "tenants": [tenant("bio", allocated=1, usage="0.00")],
            "findings": [finding("unknown_price", count=1, detail=f"no rate for Tesla T4 from {at(0)} to {at(60)}")],
        },
    ),
    Case(
        "a tenant with a budget is listed without use: it used 0, how well is unknown",
        Scene(
            held(1),
            config={
                "tenants": [
                    {"id": "astro", "match": [{"namespace": "astro"}]},
                    {"id": "bio", "budget": {"monthly": "100.00"}},
                ]
            },
        ),
        {
            "tenants": [
                tenant("bio", allocated=0, active=0, utilization=None, coverage=None, waste="0.00", total="0.00")
            ]
        },
    ),
    Case(
        "a parent's row holds its own alone",
        Scene(
            held(1),
            config={
                "tenants": [
                    {
                        "id": "science",
                        "match": [{"namespace": "science"}],
                        "budget": {"gpu_hours": "5"},
                        "quota": {"gpus": 0},
                    },
                    {"id": "astro", "parent": "science", "match": [{"namespace": "astro"}]},
                ]
            },
        ),
        {"fleet": fleet(billed="3.00"), "tenants": [tenant("science", total="0.00"), tenant("astro", on_demand=1)]},
    ),
    Case(
        "a model's glob takes the model as a source writes it",
        Scene(
            allocations=[Allocation((0, 60), "2", model="h100", tenant="astro", workload="w")],
            config={"rates": [{"model": "*H100*", "on_demand": "4.00"}]},
        ),
        {"tenants": [tenant("astro", usage="8.00")]},
    ),
]
