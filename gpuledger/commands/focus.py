"""``gpuledger focus``: a period in the FinOps Open Cost and Usage Specification."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from exporter.errors import UsageError
from gpuledger import options


def configure(parser: argparse.ArgumentParser) -> None:
    """Add period, format, version and dataset."""
    parser.add_argument("period", metavar="PERIOD", help="a local month (2026-10), day (2026-10-03) or year (2026)")
    parser.add_argument("--format", choices=("csv", "parquet"), default="csv")
    parser.add_argument("--version", dest="focus_version", metavar="V", default="1.2", help="1.2 (default) or 1.4")
    parser.add_argument(
        "--dataset", default="CostAndUsage", help="CostAndUsage (default); in 1.4 also BillingPeriod and InvoiceDetail"
    )
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="where to; default: stdout")
    options.add_example(
        parser,
        "gpuledger focus 2026-10 --format csv -o focus-2026-10.csv",
        "gpuledger focus 2026-10 --version 1.4 --dataset InvoiceDetail",
    )


def run(arguments: argparse.Namespace) -> int:
    """Export what is published, after the checker has passed it."""
    if arguments.format == "parquet" and arguments.output is None and sys.stdout.isatty():
        raise UsageError("parquet is nothing for a terminal; name a file with -o")
    from pipelines.book.focus.export import export

    made = export(
        options.load_config(arguments),
        arguments.period,
        format_=arguments.format,
        version=arguments.focus_version,
        dataset=arguments.dataset,
    )
    options.write_output(made, arguments.output)
    return 0
