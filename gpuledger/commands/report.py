"""``gpuledger report``: the statement report from the configured ledger."""

from __future__ import annotations

import argparse

from exporter.errors import UsageError
from gpuledger import options


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the period, the tenant and --json."""
    options.add_window(parser)
    parser.add_argument("--period", metavar="P", help="a local month (2026-11), day (2026-11-03) or year (2026)")
    parser.add_argument("--tenant", metavar="ID", help="this tenant's rows alone")
    options.add_json(parser)
    options.add_example(
        parser,
        "gpuledger report --period 2026-11",
        "gpuledger report --from 2026-11-01 --to 2026-11-08 --tenant vision --json",
    )


def run(arguments: argparse.Namespace) -> int:
    """Read the ledger's published facts and print them."""
    if arguments.period and (arguments.start or arguments.end):
        raise UsageError("--period and --from/--to name the same thing; give one of them")
    from pipelines.operations import report

    config = options.load_config(arguments)
    start, end = options.window(arguments, config)
    found = report(config, start=start, end=end, period=arguments.period, tenant=arguments.tenant)
    options.print_report(found, json=arguments.json)
    return 0
