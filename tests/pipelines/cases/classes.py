"""Classes: reserved, on demand, overflow and spot, decided instant by instant; what reservations cost and give back."""

from __future__ import annotations

from typing import Any, Final

from tests.pipelines.cases import Case, fleet, tenant, workload
from tests.pipelines.scene import A100, Allocation, Listed, Minutes, Scene, Series, at, seen

PRICES: Final = {"model": "*", "on_demand": "3.00", "reserved": "2.00", "overflow": "3.50", "spot": "0.50"}
RATES: Final = [PRICES]


def reservation(gpus: int, minutes: Minutes = (0, 60), of: str = "astro", **more: Any) -> dict[str, Any]:
    """A reservation of a tenant, as the configuration has it."""
    span = {"from": at(minutes[0]), "to": at(minutes[1])}
    return {"id": f"{of}-{gpus}", "tenant": of, "model": "*", "gpus": gpus, **span, **more}


def held(
    count: int, owner: str = "astro/fit", minutes: Minutes = (0, 60), *, first: int = 0, util: int = 50
) -> list[Series]:
    """So many devices, each held by a pod of its own."""
    return [seen(f"GPU-{n:02}", minutes, f"{owner}{n}", util=util) for n in range(first, first + count)]


def quota(gpus: int) -> list[dict[str, Any]]:
    return [{"id": "astro", "match": [{"namespace": "astro*"}], "quota": {"gpus": gpus}}]


CASES: Final = [
    Case(
        "a reservation is matched instant by instant, never netted",
        Scene(
            [*held(3), *held(2, minutes=(0, 30), first=3)], config={"rates": RATES, "reservations": [reservation(4)]}
        ),
        {
            "fleet": fleet(allocated=4),
            "tenants": [
                tenant(
                    "astro",
                    allocated=4,
                    reserved=3.5,
                    overflow=0.5,
                    on_demand=0,
                    reserved_unused=0.5,
                    reservation="8.00",
                    usage="1.75",
                    total="9.75",
                )
            ],
        },
    ),
    Case(
        "a commitment of 30 GPU-hours with 20 used costs what was committed",
        Scene(
            held(2, minutes=(0, 600)), config={"rates": RATES, "reservations": [reservation(3, (0, 600), rate="3.00")]}
        ),
        {
            "tenants": [
                tenant("astro", reserved=20, reserved_unused=10, reservation="90.00", usage="0.00", total="90.00")
            ]
        },
    ),
    Case(
        "a reservation takes only leases whose model matches its glob",
        Scene(
            [*held(1), seen("GPU-z", (0, 60), "astro/other", model=A100)],
            config={"rates": RATES, "reservations": [reservation(2, model="*h100*")]},
        ),
        {"tenants": [tenant("astro", reserved=1, on_demand=1, overflow=0, reserved_unused=1)]},
    ),
    Case(
        "a reservation of a part of the time splits a lease that straddles it",
        Scene(held(1), config={"rates": RATES, "reservations": [reservation(1, (15, 45))]}),
        {"tenants": [tenant("astro", reserved=0.5, on_demand=0.5, reservation="1.00", usage="1.50")]},
    ),
    Case(
        "what fits the quota is on demand, beyond it is overflow",
        Scene(held(3), config={"rates": RATES, "tenants": quota(2)}),
        {"tenants": [tenant("astro", on_demand=2, overflow=1, usage="9.50")]},
    ),
    Case(
        "reserved GPUs count towards the quota",
        Scene(held(4), config={"rates": RATES, "tenants": quota(3), "reservations": [reservation(2)]}),
        {"tenants": [tenant("astro", reserved=2, on_demand=1, overflow=1, usage="6.50", reservation="4.00")]},
    ),
    Case(
        "a quota smaller than the reservation leaves nothing on demand",
        Scene(held(3), config={"rates": RATES, "tenants": quota(1), "reservations": [reservation(2)]}),
        {"tenants": [tenant("astro", reserved=2, on_demand=0, overflow=1)]},
    ),
    Case(
        "spot stands apart and uses neither reservation nor quota",
        Scene(
            [*held(2), *held(2, "astro-spot/s", first=2)],
            config={
                "rates": RATES,
                "tenants": quota(2),
                "reservations": [reservation(3)],
                "spot": [{"namespace": "*-spot"}],
            },
        ),
        {"tenants": [tenant("astro", reserved=2, spot=2, reserved_unused=1, usage="1.00", reservation="6.00")]},
    ),
    Case(
        "a class that a source gives beats the computed one",
        Scene(
            allocations=[
                Allocation((0, 60), device=f"GPU-{n}", tenant="astro", workload=given, class_=given)
                for n, given in enumerate(("spot", "overflow", "on_demand"))
            ],
            config={"rates": RATES, "reservations": [reservation(3)]},
        ),
        {"tenants": [tenant("astro", spot=1, overflow=1, on_demand=1, reserved=0, reserved_unused=3, usage="7.00")]},
    ),
    Case(
        "who started first is reserved first",
        Scene(
            [*held(1, "astro/old"), seen("GPU-z", (0, 30)), seen("GPU-z", (30, 60), "astro/new")],
            config={"rates": RATES, "reservations": [reservation(1)]},
        ),
        {
            "tenants": [
                tenant(
                    "astro", workloads=[workload("astro/old0", 1, cost="2.00"), workload("astro/new", 0.5, cost="1.75")]
                )
            ]
        },
    ),
    Case(
        "reserved GPUs that are down are credited; reserved, unused and credited are what was reserved",
        Scene(
            held(1),
            inventory=[Listed(gpus="4", minutes=(0, 60))],
            allocations=[Allocation((0, 30), "2", tenant="astro", workload="repair", class_="down")],
            config={"rates": RATES, "reservations": [reservation(4)], "sla": {"credit_downtime": True}},
        ),
        {
            "fleet": fleet(capacity=4, allocated=1, down=1, unobserved=2),
            "tenants": [
                tenant("astro", reserved=1, reserved_unused=2, reservation="8.00", credit="-2.00", total="6.00")
            ],
        },
    ),
    Case(
        "without the agreement an outage changes no line",
        Scene(
            held(1),
            allocations=[Allocation((0, 60), "1", tenant="astro", workload="repair", class_="down")],
            inventory=[Listed(gpus="2", minutes=(0, 60))],
            config={"rates": RATES, "reservations": [reservation(2)], "sla": {"credit_downtime": False}},
        ),
        {"tenants": [tenant("astro", reserved=1, reserved_unused=1, credit="0.00", reservation="4.00")]},
    ),
    Case(
        "a credit is never for reserved GPUs that are in use",
        Scene(
            held(2),
            allocations=[Allocation((0, 60), "2", tenant="astro", workload="repair", class_="down")],
            inventory=[Listed(gpus="4", minutes=(0, 60))],
            config={"rates": RATES, "reservations": [reservation(3)], "sla": {"credit_downtime": True}},
        ),
        {"tenants": [tenant("astro", reserved=2, reserved_unused=0, credit="-2.00")]},
    ),
    Case(
        "a reservation of a model nobody has is paid for and its use is 0",
        Scene(held(1, "bio/x"), config={"rates": RATES, "reservations": [reservation(1, model="*B200*")]}),
        {
            "fleet": fleet(cost="3.00", billed="5.00", unbilled="-2.00"),
            "tenants": [
                tenant("astro", allocated=0, reserved_unused=1, reservation="2.00"),
                tenant("bio", usage="3.00"),
            ],
        },
    ),
]
