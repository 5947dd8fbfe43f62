"""``gpuledger run``: one pass of the pipeline, or a pass every few minutes until stopped."""

from __future__ import annotations

import argparse
import signal
from datetime import timedelta
from types import FrameType

from exporter.errors import UsageError
from gpuledger import options


def configure(parser: argparse.ArgumentParser) -> None:
    """Add --once, --every and --listen."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--once", action="store_true", help="one pass, then exit")
    how.add_argument("--every", metavar="D", default="5m", help="from the start of a pass to the next (default: 5m)")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:9837",
        help="where the daemon serves its own /metrics (default: %(default)s)",
    )
    options.add_example(parser, "gpuledger run --once", "gpuledger run --every 15m")


def run(arguments: argparse.Namespace) -> int:
    """Run one pass, or passes until SIGTERM."""
    from prometheus_client import REGISTRY

    from gpuledger.daemon import Daemon, serve_metrics
    from pipelines.operations import run_once
    from pipelines.periods import parse_duration

    every = parse_duration(arguments.every)
    if every <= timedelta(0):
        raise UsageError(f"--every {arguments.every}: expected more than zero; write it as 5m")
    config = options.load_config(arguments)
    if arguments.once:
        print(run_once(config))
        return 0

    daemon = Daemon(lambda: run_once(config), every_seconds=every.total_seconds(), say=options.note, registry=REGISTRY)

    def stop(_number: int, _frame: FrameType | None) -> None:
        daemon.stop()

    signal.signal(signal.SIGTERM, stop)
    serve_metrics(arguments.listen, REGISTRY)
    daemon.run()
    return 0
