"""``gpuledger run``: one pass of the pipeline, or a pass every few minutes until stopped."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
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
        help="where the daemon serves its own /metrics and /readyz (default: %(default)s)",
    )
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="how the daemon says what it did, on stderr: a line for people, or one JSON object a line",
    )
    options.add_example(parser, "gpuledger run --once", "gpuledger run --every 15m --log-format json")


def run(arguments: argparse.Namespace) -> int:
    """Run one pass, or passes until SIGTERM."""
    from prometheus_client import REGISTRY

    from exporter.json_lines import log_as_json
    from gpuledger.capacity_metrics import CapacityMetrics
    from gpuledger.daemon import Daemon, as_json, serve_metrics
    from gpuledger.reading_progress import ReadingProgress
    from pipelines.availability import published_availability
    from pipelines.operations import RunResult, run_pass
    from pipelines.periods import parse_duration

    every = parse_duration(arguments.every)
    if every <= timedelta(0):
        raise UsageError(f"--every {arguments.every}: expected more than zero; write it as 5m")
    config = options.load_config(arguments)
    if arguments.log_format == "json":
        log_as_json()

    def say(text: str, fields: Mapping[str, object]) -> None:
        options.note(as_json(text, fields) if arguments.log_format == "json" else text)

    progress = ReadingProgress(sys.stderr, say, lambda: datetime.now(UTC))
    if arguments.once:
        print(run_pass(config, progress=progress).whole())
        return 0

    capacity = CapacityMetrics(REGISTRY)

    def one_pass() -> RunResult:
        result = run_pass(config, progress=progress, stopped=daemon.stopping)
        if result.rebuilt or capacity.known is None:
            capacity.known = published_availability(config)
        return result

    daemon = Daemon(
        one_pass,
        every_seconds=every.total_seconds(),
        say=say,
        registry=REGISTRY,
    )

    def stop(_number: int, _frame: FrameType | None) -> None:
        daemon.stop()

    signal.signal(signal.SIGTERM, stop)
    serve_metrics(arguments.listen, REGISTRY, daemon.ready)
    daemon.run()
    return 0
