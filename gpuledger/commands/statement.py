"""``gpuledger statement``: one tenant's statement, for people or for machines."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from exporter.errors import UsageError
from gpuledger import options

FORMATS: Final = ("pdf", "xlsx", "csv", "json")
BINARY: Final = ("pdf", "xlsx")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add tenant, period, format and where to."""
    parser.add_argument("tenant", metavar="TENANT", help="id of the tenant")
    parser.add_argument("period", metavar="PERIOD", help="a local month (2026-10), day (2026-10-03) or year (2026)")
    parser.add_argument("--format", choices=FORMATS, default="pdf", help="pdf and xlsx need gpuledger[reports]")
    parser.add_argument("--locale", choices=("en", "fa"), default="en", help="language of pdf and xlsx (default: en)")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="where to; default: stdout")
    options.add_example(
        parser,
        "gpuledger statement vision 2026-10 --format pdf -o vision-2026-10.pdf",
        "gpuledger statement vision 2026-10 --locale fa -o vision-2026-10.pdf",
        "gpuledger statement vision 2026-10 --format json",
    )


def run(arguments: argparse.Namespace) -> int:
    """Make the statement from what is published, or hand out the closed one."""
    if arguments.format in BINARY and arguments.output is None and sys.stdout.isatty():
        raise UsageError(f"a {arguments.format} is nothing for a terminal; name a file with -o")
    from pipelines.book.statements import statement

    found = statement(options.load_config(arguments), arguments.tenant, arguments.period)
    options.write_output(found.rendered(arguments.format, arguments.locale), arguments.output)
    return 0
