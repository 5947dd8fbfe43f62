"""``gpuledger check``: is the configuration right, and what does it name."""

from __future__ import annotations

import argparse
import sys

from exporter.errors import EngineError
from gpuledger import options
from gpuledger.tables import counted


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the example; the file is --config's."""
    options.add_example(parser, "gpuledger check --config /etc/gpuledger/gpuledger.yaml")


def run(arguments: argparse.Namespace) -> int:
    """Load the configuration; say what it holds. A wrong one is one line and exit status 2; an engine away is 1.

    A tenant that has rows in the ledger and isn't listed any more makes it wrong. A source that isn't there
    yet is a note: who writes it may come later.
    """
    config = options.load_config(arguments)
    if config.ledger.exists():
        from pipelines.book.presence import hold_tenants

        hold_tenants(config)
    counts = [
        (len(config.sources), "source"),
        (len(config.tenants), "tenant"),
        (len(config.rates), "rate"),
        (len(config.reservations), "reservation"),
    ]
    holds = ", ".join(counted(count, noun) for count, noun in counts)
    print(f"{options.config_path(arguments)}: right: {holds}; {config.currency}, {config.timezone}")
    for source in config.sources:
        if not source.live and not (set("*?[") & set(source.path.name) or source.path.exists()):
            print(f"gpuledger: note: {source.written}: no such file yet ({source.path})", file=sys.stderr)
    if config.engine.spark is not None:
        from pipelines.engine.connect import missing

        reason = missing(config.engine.spark)
        if reason is not None:
            raise EngineError(reason)
    return 0
