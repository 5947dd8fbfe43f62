"""``gpuledger replay``: everything in a folder through the pipeline, in a throw-away ledger."""

from __future__ import annotations

import argparse
from pathlib import Path

from exporter.errors import UsageError
from gpuledger import options


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the folder, the window and --json."""
    parser.add_argument("directory", metavar="DIR", type=Path, help="holds gpuledger.yaml and the files it names")
    options.add_window(parser)
    options.add_json(parser)
    options.add_example(
        parser,
        "gpuledger replay recorded/november",
        "gpuledger replay recorded/november --from 2026-11-01 --to 2026-11-08 --json",
    )


def run(arguments: argparse.Namespace) -> int:
    """Replay and print the report."""
    from pipelines.config import load
    from pipelines.operations import replay

    path = arguments.directory / options.CONFIG_NAME
    named = getattr(arguments, "config", None)
    if named is not None and Path(named).absolute() != path.absolute():
        raise UsageError(f"--config {named}: a replay is by {path}, which lies beside its files; leave --config out")
    start, end = None, None
    if arguments.start or arguments.end:
        start, end = options.window(arguments, load(path))
    options.print_report(replay(arguments.directory, start=start, end=end), json=arguments.json)
    return 0
