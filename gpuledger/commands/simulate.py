"""``gpuledger simulate``: a fleet that never was, with its ground truth."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from exporter.errors import UsageError
from gpuledger import options

GPUS: Final = 64
DAYS: Final = 30


def configure(parser: argparse.ArgumentParser) -> None:
    """Add what is simulated, its size, the length, the seed and the folder."""
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="folder to write; made where absent")
    parser.add_argument("--gpus", metavar="N", type=int, help=f"GPUs (default: {GPUS})")
    parser.add_argument("--days", metavar="D", type=int, help=f"days (default: {DAYS})")
    parser.add_argument("--jobs", metavar="N", type=int, help="jobs of known bottlenecks, in place of a fleet")
    parser.add_argument("--seed", metavar="S", type=int, default=1, help="same seed, same fleet (default: 1)")
    options.config_is_unread(parser)
    options.add_example(parser, "gpuledger simulate --gpus 128 --days 7 --seed 3 --out fleet", "gpuledger replay fleet")


def run(arguments: argparse.Namespace) -> int:
    """Write the replay directory and its truth.json."""
    for name in ("gpus", "days", "jobs"):
        count = getattr(arguments, name)
        if count is not None and count < 1:
            raise UsageError(f"--{name} {count}: expected 1 or more")
    if arguments.jobs is not None and (arguments.gpus is not None or arguments.days is not None):
        raise UsageError("--jobs makes jobs in place of a fleet, which --gpus and --days are about; leave those out")
    from pipelines.simulate import simulate, simulate_jobs

    if arguments.jobs is not None:
        simulate_jobs(arguments.out, jobs=arguments.jobs, seed=arguments.seed, progress=options.progress("jobs"))
    else:
        simulate(
            arguments.out,
            gpus=arguments.gpus or GPUS,
            days=arguments.days or DAYS,
            seed=arguments.seed,
            progress=options.progress("days"),
        )
    options.note(f"wrote {arguments.out}; look at it with: gpuledger replay {arguments.out}")
    return 0
