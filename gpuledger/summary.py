"""The report for people: where the money and the GPU-hours went, tenant by tenant.

It reads the report's JSON shape and computes nothing that the report doesn't say: what it adds is units, order and
alignment. Unknown is "n/a", never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from gpuledger.tables import align, counted, shorten, spread
from pipelines.money import format_money

Json = Mapping[str, Any]

UNKNOWN: Final = "n/a"
CHARGES: Final = ("usage", "reservation", "idle", "energy", "overhead", "commitment", "credit", "adjustment")
TOP_WORKLOADS: Final = 5


def render(report: Json, *, width: int) -> str:
    """The whole summary as text of at most ``width`` columns where names allow it; no trailing newline."""
    sections = [
        _heading(report),
        _money(report),
        _hours(report),
        _tenants(report, width),
        _billing(report),
        _workloads(report, width),
        _findings(report, width),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _heading(report: Json) -> list[str]:
    period = report["period"]
    zone = ZoneInfo(period["timezone"])
    start, end, as_of = (_local(text, zone) for text in (period["from"], period["to"], report["as_of"]))
    running = datetime.fromisoformat(report["as_of"]) < datetime.fromisoformat(period["to"])
    isnt_over = "; it isn't over yet: reservations and overheads are those of all of it" if running else ""
    return [f"{start} to {end} ({period['timezone']})", f"as of {as_of}{isnt_over}"]


def _money(report: Json) -> list[str]:
    fleet, currency = report["fleet"], report["currency"]
    cost = Decimal(fleet["cost"])
    rows = [
        [f"Where the money went, in {currency}", ""],
        ["  billed to tenants", _amount(fleet["billed"], currency), _share(Decimal(fleet["billed"]), cost)],
        ["  unbilled", _amount(fleet["unbilled"], currency), _share(Decimal(fleet["unbilled"]), cost)],
        [],
        ["  fleet cost", _amount(fleet["cost"], currency), _share(cost, cost)],
    ]
    return align(rows)


def _hours(report: Json) -> list[str]:
    fleet = report["fleet"]
    places = ("allocated", "idle", "stranded", "down", "unobserved")
    parts = [fleet[f"{place}_gpu_hours"] for place in places]
    shown, total = spread(parts, fixed={0})
    capacity = Decimal(repr(fleet["capacity_gpu_hours"]))
    rows = [["Where the GPU-hours went", ""]]
    rows += [
        [f"  {place}", text, _share(Decimal(repr(part)), capacity)]
        for place, text, part in zip(places, shown, parts, strict=True)
    ]
    count = fleet["devices"]
    rows += [[], [f"  capacity of {counted(count, 'device')}", total, _share(capacity, capacity)]]
    return align(rows)


def _tenants(report: Json, width: int) -> list[str]:
    tenants = sorted(report["tenants"], key=lambda t: (-Decimal(t["charges"]["total"]), t["tenant"]))
    unattributed = report["unattributed_gpu_hours"]
    if not tenants and not unattributed:
        return ["Tenants: none has usage, a reservation, a charge or a budget in this period"]
    # Fold the smallest charges into one column until the table fits: what is shown still adds up to the total.
    moved = {kind: sum(abs(Decimal(t["charges"][kind])) for t in tenants) for kind in CHARGES}
    smallest_first = sorted((kind for kind in CHARGES if moved[kind]), key=lambda kind: moved[kind])
    for count in range(len(smallest_first) + 1):
        folded = smallest_first[:count]
        kinds = [kind for kind in CHARGES if moved[kind] and kind not in folded]
        lines = align(_tenant_rows(report, tenants, kinds, folded))
        if max(len(line) for line in lines) <= width:
            break
    return lines


def _tenant_rows(report: Json, tenants: Sequence[Json], kinds: list[str], folded: list[str]) -> list[list[str]]:
    currency = report["currency"]
    shown, total = spread([t["gpu_hours"]["allocated"] for t in tenants] + [report["unattributed_gpu_hours"]])
    # A column for all charges together would only repeat the total.
    folded = folded if kinds else []
    other = [folded[0] if len(folded) == 1 else "other"] if folded else []

    def charges(of: Sequence[Json]) -> list[str]:
        by_kind = {k: sum((Decimal(t["charges"][k]) for t in of), Decimal(0)) for k in (*CHARGES, "total")}
        rest = [sum((by_kind[k] for k in folded), Decimal(0))] if folded else []
        amounts = [*(by_kind[k] for k in kinds), *rest, by_kind["total"]]
        return [_amount(amount, currency) for amount in amounts]

    rows = [["Tenants", "GPU-hours", "busy", "coverage", *kinds, *other, f"total {currency}", "waste"]]
    for tenant, hours in zip(tenants, shown, strict=False):
        rows.append(
            [
                f"  {tenant['tenant']}",
                hours,
                _percent(tenant["utilization"]),
                _percent(tenant["coverage"]),
                *charges([tenant]),
                _amount(tenant["waste"], currency),
            ]
        )
    if report["unattributed_gpu_hours"]:
        rows.append(["  unattributed", shown[-1]])
    rows += [[], ["  allocated; billed", total, "", "", *charges(tenants)]]
    return rows


def _workloads(report: Json, width: int) -> list[str]:
    named = [(w, t["tenant"]) for t in report["tenants"] for w in t["workloads"] if w["cost"] is not None]
    dearest = sorted(named, key=lambda pair: (-Decimal(pair[0]["cost"]), pair[0]["workload"]))[:TOP_WORKLOADS]
    if not dearest:
        return []
    currency = report["currency"]
    rows = [["Dearest workloads", "tenant", "GPU-hours", "busy", f"cost {currency}"]]
    for workload, tenant in dearest:
        rows.append(
            [
                f"  {shorten(workload['workload'], max(width - 60, 20))}",
                tenant,
                spread([workload["gpu_hours"]])[1],
                _percent(workload["utilization"]),
                _amount(workload["cost"], currency),
            ]
        )
    return align(rows, left={0, 1})


def _billing(report: Json) -> list[str]:
    """Slurm's own measure, where a source keeps it; published reports of an older version have none."""
    told = report.get("slurm_billing", [])
    if not told:
        return []
    shown, total = spread([row["billing_hours"] for row in told])
    rows = [["Billed by Slurm", "tenant", "billing-hours"]]
    for row, hours in zip(told, shown, strict=True):
        rows.append([f"  {row['cluster']}:{row['account'] or UNKNOWN}", row["tenant"] or "unattributed", hours])
    rows += [[], ["  in all", "", total]]
    return align(rows, left={0, 1})


def _findings(report: Json, width: int) -> list[str]:
    findings = report["findings"]
    if not findings:
        return ["Findings: none"]
    rows = [[f"  {f['code']}", f"{f['count']:,}", " ".join((f["detail"] or "").split())] for f in findings]
    return ["Findings", *(line if len(line) <= width else line[: width - 1] + "…" for line in align(rows, left={0, 2}))]


def _local(text: str, zone: ZoneInfo) -> str:
    return datetime.fromisoformat(text).astimezone(zone).strftime("%Y-%m-%d %H:%M")


def _amount(amount: Decimal | str | None, currency: str) -> str:
    return UNKNOWN if amount is None else format_money(Decimal(amount), currency).removeprefix(f"{currency} ")


def _percent(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else f"{ratio:.1%}"


def _share(part: Decimal, whole: Decimal) -> str:
    return f"{part / whole:.1%}" if whole else ""
