"""``gpuledger doctor``: what is wrong around GPULedger, each with its mend."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from gpuledger import options


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the example; the file is --config's."""
    options.add_example(parser, "gpuledger doctor --config /etc/gpuledger/gpuledger.yaml")


def run(arguments: argparse.Namespace) -> int:
    """Print one line per check; exit status 1 when anything is wrong."""
    from gpuledger.health import examine

    outcomes = []
    for outcome in examine(options.config_path(arguments), now=datetime.now(UTC)):
        print(outcome, flush=True)
        outcomes.append(outcome)
    return int(any(outcome.state == "wrong" for outcome in outcomes))
