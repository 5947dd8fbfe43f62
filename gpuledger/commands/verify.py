"""``gpuledger verify``: the hash chain, every closed file, and every sum worked out again."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from gpuledger import options
from gpuledger.tables import counted


def configure(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    options.add_json(parser)
    options.add_example(parser, "gpuledger verify")


def run(arguments: argparse.Namespace) -> int:
    """Check the book; status 1 where anything isn't as it was closed."""
    from pipelines.book.verifying import verify

    verdict = verify(options.load_config(arguments))
    if arguments.json:
        print(json.dumps(asdict(verdict), indent=2))
    elif not verdict.problems:
        if not verdict.periods:
            print("no period is closed yet")
        else:
            span = f"{verdict.periods[0]} to {verdict.periods[-1]}"
            things = ((verdict.statements, "statement"), (verdict.files, "file"), (verdict.entries, "booked line"))
            things = ((verdict.statements, "statement"), (verdict.files, "file"), (verdict.entries, "booked line"))
            print(
                f"{counted(len(verdict.periods), 'closed period')} ({span})"
                f" with {', '.join(counted(*thing) for thing in things)}: as closed; chain {verdict.head[:16]}"
            )
    for problem in verdict.problems:
        print(f"gpuledger: {problem}", file=sys.stderr)
    return 1 if verdict.problems else 0
