"""``gpuledger close``: a month, for good."""

from __future__ import annotations

import argparse
import getpass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from exporter.errors import UsageError
from gpuledger import options

if TYPE_CHECKING:
    from pipelines.book.readiness import MonthState
    from pipelines.config import Config


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the period, and what overrules a refusal."""
    parser.add_argument("period", metavar="PERIOD", nargs="?", help="a local month that is over (2026-10)")
    parser.add_argument("--list", action="store_true", help="show how far each month is, and what holds it open")
    parser.add_argument(
        "--approve", action="store_true", help="close it as another person proposed it (closing.approval)"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="close although coverage is low, findings or earlier months are open, or the grace isn't over",
    )
    parser.add_argument("--reason", metavar="WHY", default="", help="why; the book keeps it")
    options.add_by(parser)
    options.add_example(
        parser,
        "gpuledger close 2026-10",
        "gpuledger close --list",
        'gpuledger close 2026-10 --force --reason "two nodes never came back"',
        "gpuledger close 2026-10 --approve --by bea",
    )


def run(arguments: argparse.Namespace) -> int:
    """Close the month and say what it made."""
    from pipelines.book.closing import close, states

    config, now = options.load_config(arguments), datetime.now(UTC)
    if arguments.list == bool(arguments.period):
        raise UsageError("name the month to close, such as 2026-10, or give --list alone")
    if arguments.list:
        print("\n".join(_described(state, config) for state in states(config, now=now)) or "no month yet")
        return 0
    done = close(
        config,
        arguments.period,
        now=now,
        by=arguments.by or getpass.getuser(),
        force=arguments.force,
        reason=arguments.reason,
        approve=arguments.approve,
    )
    print(done)
    return 0


def _described(state: MonthState, config: Config) -> str:
    until = f" until {state.until.astimezone(config.timezone):%Y-%m-%d %H:%M}" if state.until else ""
    return f"{state.period}  {state.state}{until}" + (f": {'; '.join(state.problems)}" if state.problems else "")
