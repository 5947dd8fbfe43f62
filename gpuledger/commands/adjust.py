"""``gpuledger adjust``: credits, closed months at other prices, and reversals, booked in the open month."""

from __future__ import annotations

import argparse
import getpass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING

from exporter.errors import UsageError
from gpuledger import options

if TYPE_CHECKING:
    from pipelines.book.entries import Entry
    from pipelines.config import Config


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the four things that it does."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--credit", nargs=2, metavar=("TENANT", "AMOUNT"), help="take AMOUNT off; a negative one adds")
    what.add_argument("--reprice", metavar="PERIOD", help="show a closed month at other prices; --book books it")
    what.add_argument("--reverse", metavar="ENTRY", help="negate what was booked under this id")
    what.add_argument("--list", action="store_true", help="show what was booked by hand")
    parser.add_argument("--for", dest="about", metavar="PERIOD", help="--credit: the period that it is about")
    parser.add_argument("--prices", metavar="FILE", type=Path, help="--reprice: by this file (default: --config)")
    parser.add_argument("--book", action="store_true", help="--reprice: book the difference")
    parser.add_argument("--reason", metavar="WHY", default="", help="why; the book keeps it")
    options.add_recorded_on(parser)
    options.add_by(parser)
    options.add_json(parser)
    options.add_example(
        parser,
        'gpuledger adjust --credit vision 120.00 --for 2026-09 --reason "dispute 17"',
        "gpuledger adjust --reprice 2026-09 --prices new-rates.yaml",
        'gpuledger adjust --reprice 2026-09 --prices new-rates.yaml --book --reason "contract of May"',
        'gpuledger adjust --reverse 2026-10/1 --reason "booked twice"',
    )


def run(arguments: argparse.Namespace) -> int:
    """Do it, and print what was booked."""
    from pipelines.book import adjusting

    config = options.load_config(arguments)
    now, by = datetime.now(UTC), arguments.by or getpass.getuser()
    if arguments.reprice and not arguments.book:
        _show(config, arguments)
        return 0
    if arguments.reprice:
        prices = _prices(config, arguments)
        entries = adjusting.reprice(config, prices, arguments.reprice, reason=arguments.reason, now=now, by=by)
    elif arguments.reverse:
        entries = adjusting.reverse(config, arguments.reverse, reason=arguments.reason, now=now, by=by)
    elif arguments.credit:
        tenant, amount = arguments.credit
        if arguments.about is None:
            raise UsageError("--for is missing: name the period that the credit is about, such as --for 2026-09")
        entries = adjusting.credit(
            config, tenant, _amount(amount), about=arguments.about, reason=arguments.reason, now=now, by=by
        )
    else:
        entries = adjusting.booked(config)
    _print(entries, config, json=arguments.json)
    return 0


def _show(config: Config, arguments: argparse.Namespace) -> None:
    from gpuledger.differences import render
    from pipelines.book.adjusting import repriced

    found = repriced(config, _prices(config, arguments), arguments.reprice)
    print(found.to_json() if arguments.json else render(found))


def _prices(config: Config, arguments: argparse.Namespace) -> Config:
    from pipelines.config import load

    return options.as_recorded_on(load(arguments.prices) if arguments.prices else config, arguments)


def _amount(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise UsageError(f"--credit {text}: is no amount; write one as 120.00") from None


def _print(entries: list[Entry], config: Config, *, json: bool) -> None:
    from pipelines.book.adjusting import described
    from pipelines.book.journal import entry_to_json

    if json:
        import json as json_

        print(json_.dumps([entry_to_json(e) for e in entries], indent=2))
        return
    print("\n".join(described(e, config.currency) for e in entries) or "nothing to book")
