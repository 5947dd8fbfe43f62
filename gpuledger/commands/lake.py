"""``gpuledger lake``: what the sample lake holds, whether it is whole, fewer files, fewer days."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gpuledger import options
from gpuledger.tables import counted

if TYPE_CHECKING:
    from pipelines.config import Config
    from pipelines.ledger import Ledger


def configure(parser: argparse.ArgumentParser) -> None:
    """Add what to do, --keep, --dry-run and --json."""
    parser.add_argument(
        "action",
        metavar="ACTION",
        choices=("ls", "verify", "compact", "prune"),
        help="ls: days, samples and bytes; verify: every part against its name and the ledger, each fault with its"
        " mend; compact: one part per cluster and day; prune: let go of samples of closed periods that are"
        " older than --keep, and of files that nothing lists",
    )
    parser.add_argument("--keep", metavar="D", default="400d", help="prune: how old samples get (default: 400d)")
    parser.add_argument("--dry-run", action="store_true", help="prune: only say what would go")
    options.add_json(parser)
    options.add_example(parser, "gpuledger lake ls", "gpuledger lake prune --keep 200d --dry-run")


def run(arguments: argparse.Namespace) -> int:
    """Do it; status 1 where verify finds a fault."""
    from pipelines.ledger import open_ledger

    config = options.load_config(arguments)
    with open_ledger(config.ledger, f"gpuledger lake {arguments.action}") as ledger:
        return {"ls": _ls, "verify": _verify, "compact": _compact, "prune": _prune}[arguments.action](
            ledger, config, arguments
        )


def _ls(ledger: Ledger, _config: Config, arguments: argparse.Namespace) -> int:
    from pipelines.lake_upkeep import list_days

    days = list_days(ledger)
    if arguments.json:
        rows = [
            {"cluster": d.cluster, "day": f"{d.day}", "parts": d.parts, "samples": d.samples, "bytes": d.size}
            for d in days
        ]
        print(json.dumps(rows, indent=2))
        return 0
    for d in days:
        print(f"{d.day}  {d.cluster:<20} {counted(d.parts, 'part'):>10} {d.samples:>14,} samples {d.size:>16,} bytes")
    samples, size = sum(d.samples for d in days), sum(d.size for d in days)
    print(f"{counted(len(days), 'day')}, {samples:,} samples, {size:,} bytes")
    return 0


def _verify(ledger: Ledger, _config: Config, arguments: argparse.Namespace) -> int:
    from pipelines.lake_upkeep import list_days, verify

    faults = list(verify(ledger))
    if arguments.json:
        print(json.dumps([{"path": str(f.path), "what": f.what, "mend": f.mend} for f in faults], indent=2))
    elif not faults:
        print(f"{counted(sum(d.parts for d in list_days(ledger)), 'part')}: as written")
    for fault in faults:
        print(f"gpuledger: {fault}", file=sys.stderr)
    return 1 if faults else 0


def _compact(ledger: Ledger, _config: Config, arguments: argparse.Namespace) -> int:
    from pipelines.lake_upkeep import compact

    merged = compact(ledger)
    if arguments.json:
        print(json.dumps({"days": merged.days, "parts_before": merged.before, "parts_after": merged.after}))
    else:
        print(f"merged {counted(merged.before, 'part')} into {merged.after}")
    return 0


def _prune(ledger: Ledger, config: Config, arguments: argparse.Namespace) -> int:
    from pipelines.lake_upkeep import prune
    from pipelines.periods import parse_duration

    keep = parse_duration(arguments.keep)
    done = prune(ledger, config, keep=keep, now=datetime.now(UTC), dry=arguments.dry_run)
    samples, size = sum(d.samples for d in done.days), sum(d.size for d in done.days)
    if arguments.json:
        kept_from = None if done.kept_from is None else f"{done.kept_from}"
        answer = {"days": len(done.days), "samples": samples, "bytes": size, "strays": len(done.strays)}
        print(json.dumps({**answer, "kept_from": kept_from, "dry_run": arguments.dry_run}))
        return 0
    verb = "would let go" if arguments.dry_run else "let go"
    print(
        f"{verb} of {counted(len(done.days), 'day')} ({samples:,} samples, {size:,} bytes)"
        f" and {counted(len(done.strays), 'file')} that nothing lists"
    )
    if done.kept_from is None:
        print("no period is closed yet, so every day may still be asked for; see `gpuledger close`")
    else:
        print(f"open periods may ask for everything from {done.kept_from} on")
    return 0
