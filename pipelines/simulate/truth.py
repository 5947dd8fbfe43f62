"""The ground truth: what a report on the simulated period must contain.

Derived from the scenario's own intervals with exact arithmetic. It uses nothing of the pipeline that it judges,
and no sample: what the samples said (energy, activity) is passed in as evidence and stands apart, as approximate.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

from pipelines.simulate.fleet import A100_K8S, A100_SLURM, H100_K8S, H100_SLURM
from pipelines.simulate.scenario import Scenario
from pipelines.simulate.segments import Held, Segment, held_parts, segments
from pipelines.simulate.terms import TIMEZONE
from pipelines.simulate.truth_money import (
    CLASSES,
    NOBODY,
    ZERO,
    Hours,
    Sums,
    Tariff,
    accounts,
    idle_to_share,
    money,
    overhead,
    share_out,
    summed,
    to_cents,
)

STATES: Final = ("allocated", "idle", "stranded", "down", "unobserved")


@dataclass(slots=True)
class Evidence:
    """What the generated samples add up to within the billed period, by lease (its place in the scenario).

    Args:
        busy_seconds: busy ratio × time over the samples.
        seen_seconds: time with a sample.
        joules: the lease's part of its board's energy.
        fleet_joules: of all boards.
    """

    busy_seconds: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    seen_seconds: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    joules: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    fleet_joules: float = 0.0


def truth(scenario: Scenario, evidence: Evidence | None = None) -> dict[str, Any]:
    """The expected report, and beside it (keys that begin with "_") what is known but not exact or not reported.

    Without a leading underscore, hours are exact to six decimals and money to the cent.
    """
    window = scenario.window
    parts = held_parts(scenario)
    states = list(segments(scenario, parts))
    tariff = Tariff(scenario.terms)
    in_hours = Hours(scenario.fleet.quanta)
    books = accounts(scenario, parts, tariff)
    sums = {tenant: summed(scenario, account, tariff) for tenant, account in books.items()}
    bills = _bills(scenario, sums, idle_to_share(scenario, states, books.values(), tariff))
    billed = sum(bill["total"] for bill in bills.values())
    cost = to_cents(_capacity_cost(scenario, states, tariff) + overhead(scenario))

    seconds = {name: sum(getattr(s, name) * (s.end - s.start) for s in states) for name in STATES}
    expected: dict[str, Any] = {
        "period": {"from": _iso(window.start), "to": _iso(window.end), "timezone": TIMEZONE},
        "currency": "USD",
        "fleet": {
            "capacity_gpu_hours": _six(in_hours(sum(seconds.values()))),
            **{f"{name}_gpu_hours": _six(in_hours(amount)) for name, amount in seconds.items()},
            "devices": len({s.device for s in states}),
            "cost": money(cost),
            "billed": money(billed),
            "unbilled": money(cost - billed),
        },
        "tenants": [_tenant(tenant, sums.get(tenant), bill) for tenant, bill in bills.items()],
        "unattributed_gpu_hours": _six(sums[NOBODY].allocated if NOBODY in sums else ZERO),
        "findings": [{"code": code} for code in _findings(scenario)],
        "_workloads": _workloads(scenario, parts),
        "_incidents": _incidents(scenario),
    }
    if evidence is not None:
        expected["_approximate"] = _approximate(scenario, parts, evidence, tariff)
    return expected


def _bills(scenario: Scenario, sums: dict[str, Sums], idle_cost: Fraction) -> dict[str, dict[str, int]]:
    """Charges in cents by tenant, by id."""
    idle = share_out(to_cents(idle_cost), {tenant: account.weight for tenant, account in sums.items()})
    paying = sums.keys() - {NOBODY}
    even = share_out(to_cents(overhead(scenario)), dict.fromkeys(paying, Fraction(1)))
    budgeted = {str(entry["id"]) for entry in scenario.terms.tenants if "budget" in entry}
    bills = {}
    for tenant in sorted(paying | budgeted):
        account = sums.get(tenant)
        bill = {
            "usage": to_cents(account.usage) if account else 0,
            "reservation": to_cents(account.reservation) if account else 0,
            "idle": idle.get(tenant, 0),
            "energy": 0,
            "overhead": even.get(tenant, 0),
            "credit": -to_cents(account.credit) if account else 0,
            "adjustment": 0,
        }
        bills[tenant] = {**bill, "total": sum(bill.values())}
    return bills


def _capacity_cost(scenario: Scenario, states: list[Segment], tariff: Tariff) -> Fraction:
    seconds: dict[tuple[str, int], int] = defaultdict(int)
    for state in states:
        for start, end in tariff.pieces(state.start, state.end):
            seconds[scenario.fleet.devices[state.device].card.model, tariff.epoch(start)] += end - start
    return sum(
        (Fraction(amount, 3600) * tariff.price(model, "on_demand", e) for (model, e), amount in seconds.items()), ZERO
    )


def _tenant(tenant: str, sums: Sums | None, bill: dict[str, int]) -> dict[str, Any]:
    hours = sums.hours if sums else dict.fromkeys(CLASSES, ZERO)
    workload_hours = sums.workload_hours if sums else {}
    workloads: list[dict[str, Any]] = [
        {"workload": workload, "gpu_hours": _six(amount)} for workload, amount in sorted(workload_hours.items())
    ]
    if sums and not hours["reserved"]:  # then a workload's cost is its part of the line, to the cent
        costs = share_out(bill["usage"], {workload: sums.workload_usage[workload] for workload in workload_hours})
        for workload in workloads:
            workload["cost"] = money(costs[workload["workload"]])
    return {
        "tenant": tenant,
        "gpu_hours": {
            "allocated": _six(sums.allocated if sums else ZERO),
            **{kind: _six(amount) for kind, amount in hours.items()},
            "reserved_unused": _six(sums.unused if sums else ZERO),
        },
        "charges": {kind: money(cents) for kind, cents in bill.items()},
        "workloads": workloads,
    }


def _findings(scenario: Scenario) -> list[str]:
    # Drivers misread now and then wherever there are whole cards with profiling: `signals` makes them.
    misread = {"invalid_sample"} if scenario.fleet.count(H100_K8S, H100_SLURM, A100_K8S, A100_SLURM) else set()
    codes = {"outage": "gap", "driver_reload": "counter_reset", "xid": "xid_event", "repair": "xid_event"}
    return sorted({codes[i.kind] for i in scenario.incidents if i.kind in codes} | misread)


def _workloads(scenario: Scenario, parts: list[Held]) -> list[dict[str, Any]]:
    """What each workload did, for whoever judges a diagnosis."""
    fleet = scenario.fleet
    seen: dict[str, dict[str, Any]] = {}
    for part in parts:
        lease = part.lease
        entry = seen.setdefault(
            lease.workload,
            {
                "workload": lease.workload,
                "tenant": lease.tenant,
                "behaviour": lease.behaviour,
                "gpus": lease.ranks,
                "start": _iso(lease.start),
                "end": _iso(lease.end),
            },
        )
        entry["end"] = max(entry["end"], _iso(lease.end))
        if lease.straggler == lease.rank:
            entry["straggler"] = fleet.devices[fleet.units[lease.unit].device].uuid
    return [seen[workload] for workload in sorted(seen)]


def _incidents(scenario: Scenario) -> list[dict[str, Any]]:
    told = []
    for incident in sorted(scenario.incidents, key=lambda i: (i.start, i.kind, i.device or 0)):
        entry = {key: value for key, value in asdict(incident).items() if value is not None}
        entry["start"], entry["end"] = _iso(incident.start), _iso(min(incident.end, scenario.window.last))
        if incident.node is not None:
            entry["node"] = scenario.fleet.nodes[incident.node].name
        if incident.device is not None:
            entry["device"] = scenario.fleet.devices[incident.device].uuid
        told.append(entry)
    return told


def _approximate(scenario: Scenario, parts: list[Held], evidence: Evidence, tariff: Tariff) -> dict[str, Any]:
    """Energy and activity, good to about one per cent: samples are evidence, not the bill."""
    quanta = scenario.fleet.quanta
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for part in parts:
        place, tenant = part.place, part.lease.tenant
        if tenant is None:
            continue
        of_tenant = sums[tenant]
        allocated = part.quanta * (part.end - part.start) / quanta / 3600
        seen, busy = evidence.seen_seconds.get(place, 0.0), evidence.busy_seconds.get(place, 0.0)
        of_tenant["joules"] += evidence.joules.get(place, 0.0)
        of_tenant["allocated"] += allocated
        if seen:
            active = allocated * busy / seen
            of_tenant["observed"] += allocated
            of_tenant["active"] += active
            of_tenant["covered"] += part.quanta / quanta * seen / 3600
            for start, end in tariff.pieces(part.start, part.end):
                price = float(tariff.price(part.model, "on_demand", tariff.epoch(start)))
                of_tenant["waste"] += price * part.quanta / quanta * (end - start) / 3600 * (1 - busy / seen)
    return {
        "fleet": {"energy_kwh": round(evidence.fleet_joules / 3.6e6, 6)},
        "tenants": [
            {
                "tenant": tenant,
                "active_gpu_hours": round(of["active"], 6),
                "utilization": round(of["active"] / of["observed"], 6) if of["observed"] else None,
                "coverage": round(of["covered"] / of["allocated"], 6),
                "energy_kwh": round(of["joules"] / 3.6e6, 6),
                "waste": round(of["waste"], 2),
            }
            for tenant, of in sorted(sums.items())
        ],
    }


def _six(amount: Fraction) -> float:
    return float(round(amount, 6))


def _iso(time: int) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
