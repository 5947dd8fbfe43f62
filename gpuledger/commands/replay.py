"""``gpuledger replay``: everything in a folder through the pipeline, in a throw-away ledger."""

from __future__ import annotations

import argparse
from pathlib import Path

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
    from pipelines import config as configuration
    from pipelines.operations import replay

    start, end = None, None
    if arguments.start or arguments.end:
        path = getattr(arguments, "config", None) or arguments.directory / options.CONFIG_NAME
        start, end = options.window(arguments, configuration.load(Path(path)))
    options.print_report(replay(arguments.directory, start=start, end=end), json=arguments.json)
    return 0
