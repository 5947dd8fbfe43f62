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
    "slurm-state": "answers of `scontrol show …` and `sacctmgr -P show …`: nodes, reservations, limits, running jobs",
    "kube-state": "kube-state-metrics' exposition text, or `kubectl get -o json`",
    "allocations": "a CSV of allocations",
    "inventory": "a CSV of what exists",
    "calendar": "a CSV of maintenance and repairs",
    "acceptance": "JSON of `dcgmi diag -j`, or the output of an NCCL bandwidth test",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the kind and the files."""
    parser.add_argument(
        "kind", metavar="KIND", choices=sorted(KINDS), help="; ".join(f"{kind}: {what}" for kind, what in KINDS.items())
    )
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path)
    parser.add_argument("--cluster", metavar="NAME", help="cluster of the files (default: the sources')")
    parser.add_argument(
        "--at", metavar="TIME", help="when it was asked or measured, where the file doesn't say: 2026-10-05T12:00:00Z"
    )
    parser.add_argument("--node", metavar="NAME", help="node of acceptance tests, where the file doesn't say")
    options.add_example(
        parser,
        "gpuledger import sacct november.txt december.txt",
        "gpuledger import acceptance --node gpu017 --at 2026-10-05T12:00:00Z diag.json",
        "gpuledger import sacct --cluster hpc2 november.txt",
    )


def run(arguments: argparse.Namespace) -> int:
    """Import and say what was new."""
    from pipelines.operations import import_files

    kind = arguments.kind.replace("-", "_")  # as the configuration's key is written
    told = {key: value for key in ("at", "node") if (value := getattr(arguments, key)) is not None}
    print(import_files(options.load_config(arguments), kind, arguments.files, cluster=arguments.cluster, told=told))
    return 0
