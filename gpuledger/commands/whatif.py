"""``gpuledger whatif``: the same usage under another configuration."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from exporter.errors import UsageError
from gpuledger import options


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the period; ``--config`` is the other configuration here."""
    parser.add_argument("period", metavar="PERIOD", help="a local month (2026-10), day (2026-10-03) or year (2026)")
    parser.add_argument(
        "--base",
        metavar="FILE",
        type=Path,
        help="what is compared with --config, and whose ledger is read"
        " (default: $GPULEDGER_CONFIG, else gpuledger.yaml here, else beside the other file)",
    )
    options.add_json(parser)
    options.add_example(parser, "gpuledger whatif --config cheaper.yaml 2026-10")


def run(arguments: argparse.Namespace) -> int:
    """Compare, and print the differences per tenant."""
    from gpuledger.differences import render
    from pipelines.book.whatif import whatif
    from pipelines.config import load

    named = getattr(arguments, "config", None)
    if named is None:
        raise UsageError("--config is missing: name the other configuration, such as --config cheaper.yaml")
    found = whatif(load(base(arguments.base, Path(named))), load(Path(named)), arguments.period)
    print(found.to_json() if arguments.json else render(found))
    return 0


def base(named: Path | None, other: Path) -> Path:
    """The configuration that the ledger belongs to."""
    if named is not None:
        return named
    if os.environ.get(options.CONFIG_VARIABLE):
        return Path(os.environ[options.CONFIG_VARIABLE])
    here = Path(options.CONFIG_NAME)
    return here if here.exists() else other.parent / options.CONFIG_NAME
