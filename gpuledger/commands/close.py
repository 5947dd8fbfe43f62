"""``gpuledger close``: a month, for good."""

from __future__ import annotations

import argparse
import getpass
from datetime import UTC, datetime

from gpuledger import options


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the period, and what overrules a refusal."""
    parser.add_argument("period", metavar="PERIOD", help="a local month that is over (2026-10)")
    parser.add_argument(
        "--force", action="store_true", help="close although coverage is low, findings are open or the grace isn't over"
    )
    parser.add_argument("--reason", metavar="WHY", default="", help="why; the book keeps it")
    options.add_by(parser)
    options.add_example(
        parser, "gpuledger close 2026-10", 'gpuledger close 2026-10 --force --reason "two nodes never came back"'
    )


def run(arguments: argparse.Namespace) -> int:
    """Close the month and say what it made."""
    from pipelines.book.closing import close

    done = close(
        options.load_config(arguments),
        arguments.period,
        now=datetime.now(UTC),
        by=arguments.by or getpass.getuser(),
        force=arguments.force,
        reason=arguments.reason,
    )
    print(done)
    return 0
