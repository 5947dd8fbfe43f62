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
    parser.add_argument(
        "--fleet",
        metavar="GLOB=MODEL[:SPEED]",
        action="append",
        default=[],
        help="other cards for those of a model; SPEED: how many times as fast they do the same work",
    )
    parser.add_argument(
        "--reserve",
        metavar="TENANT:MODEL:GPUS[:RATE]",
        action="append",
        default=[],
        help="a further reservation for the whole period",
    )
    parser.add_argument(
        "--cheapest-reservation", metavar="TENANT", help="which reservation would have been cheapest for this tenant"
    )
    options.add_recorded_on(parser)
    options.add_json(parser)
    options.add_example(
        parser,
        "gpuledger whatif --config cheaper.yaml 2026-10",
        "gpuledger whatif --as-recorded-on 2026-10-31 2026-10",
        "gpuledger whatif --fleet '*A100*=NVIDIA H100:2.5' 2026-10",
        "gpuledger whatif --reserve 'vision:*H100*:8' 2026-10",
        "gpuledger whatif --cheapest-reservation vision 2026-10",
    )


def run(arguments: argparse.Namespace) -> int:
    """Compare, and print the differences per tenant."""
    from gpuledger.differences import render
    from pipelines.book.cheapest import cheapest
    from pipelines.book.whatif import whatif
    from pipelines.config import load

    named = getattr(arguments, "config", None)
    supposed = (
        arguments.fleet or arguments.reserve or arguments.cheapest_reservation or arguments.as_recorded_on is not None
    )
    if named is None and not supposed:
        raise UsageError("--config is missing: name the other configuration, such as --config cheaper.yaml")
    if named is None:
        config = other = load(base(arguments.base, Path(options.CONFIG_NAME)))
    else:
        config, other = load(base(arguments.base, Path(named))), load(Path(named))
    other = options.as_recorded_on(other, arguments)
    if arguments.cheapest_reservation:
        advice = cheapest(other, arguments.cheapest_reservation, arguments.period)
        print(advice.to_json() if arguments.json else advice)
        return 0
    found = whatif(config, other, arguments.period, fleet=arguments.fleet, reserve=arguments.reserve)
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
