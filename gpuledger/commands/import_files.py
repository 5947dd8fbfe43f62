"""``gpuledger import``: files into the ledger; the same file again changes nothing."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from gpuledger import options

KINDS: Final = {
    "metrics": "exposition text of an exporter or of Prometheus (.prom, .om, .gz)",
    "sacct": "output of `sacct -P` with its header line",
    "slurm-json": "output of `sacct --json`, or slurmrestd's answer about jobs",
    "allocations": "a CSV of allocations",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the kind and the files."""
    parser.add_argument(
        "kind", metavar="KIND", choices=sorted(KINDS), help="; ".join(f"{kind}: {what}" for kind, what in KINDS.items())
    )
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path)
    parser.add_argument("--cluster", metavar="NAME", help="cluster of the files (default: the sources')")
    options.add_example(
        parser,
        "gpuledger import sacct november.txt december.txt",
        "gpuledger import sacct --cluster hpc2 november.txt",
    )


def run(arguments: argparse.Namespace) -> int:
    """Import and say what was new."""
    from pipelines.operations import import_files

    kind = arguments.kind.replace("-", "_")  # as the configuration's key is written
    print(import_files(options.load_config(arguments), kind, arguments.files, cluster=arguments.cluster))
    return 0
