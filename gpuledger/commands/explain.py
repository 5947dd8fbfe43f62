"""``gpuledger explain``: a statement's line, back to leases, hours, coverage and rate entry."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpuledger import options
from gpuledger.tables import align

if TYPE_CHECKING:
    from pipelines.book.document import Line
    from pipelines.book.explaining import Explanation
    from pipelines.book.price_walk import Repriced


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the statement and the line."""
    parser.add_argument(
        "statement", metavar="STATEMENT", help="its number (2026-000017), or TENANT/PERIOD (vision/2026-10)"
    )
    parser.add_argument("line", metavar="LINE", type=int, help="number of the line")
    parser.add_argument("--hours", action="store_true", help="each lease hour by hour")
    options.add_json(parser)
    options.add_example(parser, "gpuledger explain vision/2026-10 1", "gpuledger explain 2026-000017 1 --hours")


def run(arguments: argparse.Namespace) -> int:
    """Walk from the line to where it comes from."""
    from pipelines.book.explaining import explain

    found = explain(options.load_config(arguments), arguments.statement, arguments.line)
    print(found.to_json() if arguments.json else _shown(found, hours=arguments.hours))
    return 0


def _shown(found: Explanation, *, hours: bool) -> str:
    line = found.line
    lines = [
        f"{found.statement}, line {line.number}: {line.description}, {line.amount} ({found.tenant}, {found.period})",
        f"configuration {found.config_hash[:12]}",
        *found.steps,
    ]
    if found.repriced is not None:
        lines += ["", *_repriced(found.repriced, line)]
    if not found.leases:
        return "\n".join(lines)
    rows = [["Leases", "device", "class", "from (UTC)", "to", "GPU-hours", "coverage", "rate", "amount"]]
    for lease in found.leases:
        coverage = "n/a" if lease.coverage is None else f"{lease.coverage:.1%}"
        device = "a guess" if lease.guessed else lease.device or "unknown"
        times = [f"{t:%m-%d %H:%M}" for t in (lease.first, lease.last)]
        amounts = [f"{lease.gpu_hours:.6f}", coverage, lease.rate or "n/a", lease.amount]
        rows.append([f"  {lease.workload}", device, lease.class_, *times, *amounts])
        if hours:
            rows += [
                [f"    {h.hour:%m-%d %H:00}", "", "", "", "", f"{h.gpu_hours:.6f}", f"{h.observed_gpu_hours:.6f} seen"]
                for h in lease.hours
            ]
    total = f"{sum(lease.gpu_hours for lease in found.leases):.6f}"
    rows += [[], ["  this line", "", "", "", "", total, "", "", line.amount]]
    entries = sorted({f"  {lease.origin}; {lease.rate_entry}" for lease in found.leases})
    return "\n".join([*lines, "", *align(rows, left={0, 1, 2}), "", "From", *entries])


def _repriced(found: Repriced, line: Line) -> list[str]:
    rows = [["Prices", "of", "class", "GPU-hours", "rate", "amount", "priced by"]]
    for name, parts, amount in (
        ("then", found.then, found.then_amount),
        ("now", found.now, found.now_amount),
    ):
        for p in parts:
            hours = f"{p.gpu_hours:.6f}"
            rows.append([f"  {name}", p.what, p.class_, hours, p.rate or "n/a", p.amount, p.rate_entry])
        rows.append([f"  {name}, together", "", "", "", "", amount, ""])
    for name, amount in (("booked before", found.booked_before), ("this line", line.amount)):
        rows.append([f"  {name}", "", "", "", "", amount, ""])
    return align(rows, left={0, 1, 2, 6})
