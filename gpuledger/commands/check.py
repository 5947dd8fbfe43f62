"""``gpuledger check``: is the configuration right, and what does it name."""

from __future__ import annotations

import argparse

from gpuledger import options


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the example; the file is --config's."""
    options.add_example(parser, "gpuledger check --config /etc/gpuledger/gpuledger.yaml")


def run(arguments: argparse.Namespace) -> int:
    """Load the configuration; say what it holds. A wrong one is one line and exit status 2."""
    config = options.load_config(arguments)
    counts = [
        (len(config.sources), "source"),
        (len(config.tenants), "tenant"),
        (len(config.rates), "rate"),
        (len(config.reservations), "reservation"),
    ]
    holds = ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
    print(f"{options.config_path(arguments)}: right: {holds}; {config.currency}, {config.timezone}")
    return 0
