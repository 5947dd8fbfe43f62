"""Arguments that several commands share, and what they mean."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

CONFIG_VARIABLE = "GPULEDGER_CONFIG"


def config_path(arguments: argparse.Namespace) -> Path:
    """The configuration file: ``--config``, else ``$GPULEDGER_CONFIG``, else ``gpuledger.yaml`` here."""
    return Path(getattr(arguments, "config", None) or os.environ.get(CONFIG_VARIABLE) or "gpuledger.yaml")


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``: the report for scripts."""
    parser.add_argument("--json", action="store_true", help="print the report as JSON, alone, on stdout")


def add_window(parser: argparse.ArgumentParser) -> None:
    """``--from`` and ``--to``, as text: a time without an offset is local to the configuration's time zone."""
    parser.add_argument("--from", dest="start", metavar="T", help="start, ISO 8601; local to `timezone` without offset")
    parser.add_argument("--to", dest="end", metavar="T", help="end, exclusive")


def add_example(parser: argparse.ArgumentParser, *lines: str) -> None:
    """The example below the options."""
    parser.epilog = "\n".join(["example:" if len(lines) == 1 else "examples:", *(f"  {line}" for line in lines)])
