"""A year of a Slurm that runs a million jobs: how long its accounting takes to read, and to find unchanged.

What is measured is the import itself, from the file to the ledger; metering and rating come after it. Prints each
number beside its limit and exits 1 when one is over it.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench._results import record
from pipelines.config import load
from pipelines.ingest import ingest
from pipelines.ledger import open_ledger

JOBS, NODES, GPUS = 1_000_000, 250, 4
LIMITS = {"slurm_import_1m_jobs_s": 60.0, "slurm_import_unchanged_s": 5.0}
CONFIG = 'currency: USD\nsources:\n  - {sacct: jobs.txt, cluster: hpc}\nrates:\n  - {model: "*", on_demand: "1.00"}\n'
HEAD = "JobID|JobIDRaw|Cluster|Account|User|Partition|QOS|State|Start|End|ElapsedRaw|NodeList|AllocTRES\n"
TRES = "billing=8,cpu=8,gres/gpu:a100=1,gres/gpu=1,mem=64G,node=1"


def write(folder: Path) -> None:
    """Write a year in which no GPU is given twice."""
    chance = random.Random(1)
    start, mean = datetime(2026, 1, 1), 365 * 86400 * NODES * GPUS / JOBS  # noqa: DTZ001  local, as sacct writes it
    free = [[0] * GPUS for _ in range(NODES)]
    with (folder / "jobs.txt").open("w") as out:
        out.write(HEAD)
        for number in range(JOBS):
            node, gpu = number // GPUS % NODES, number % GPUS
            begin = free[node][gpu] + chance.randint(5, 600)
            end = begin + int(chance.expovariate(1 / (mean - 303))) + 1
            free[node][gpu] = end
            times = "|".join((start + timedelta(seconds=s)).isoformat() for s in (begin, end))
            who = f"{number}|{number}|hpc|account{number % 40}|user{number % 300}|gpu|normal|COMPLETED"
            out.write(f"{who}|{times}|{end - begin}|gpu{node:03}|{TRES}\n")
    (folder / "gpuledger.yaml").write_text(CONFIG)


def main() -> int:
    """Measure, record, compare."""
    scores = {}
    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-") as name:
        write(Path(name))
        config = load(Path(name) / "gpuledger.yaml")
        for score in LIMITS:
            begun = time.perf_counter()
            with open_ledger(config.ledger, "bench") as ledger:
                done = ingest(ledger, config.sources, config, configured=True, now=datetime.now(UTC))
            scores[score] = time.perf_counter() - begun
            assert done.records in (JOBS, 0)
    record(scores=scores)
    over = [score for score, limit in LIMITS.items() if scores[score] > limit]
    for score in over:
        print(f"{score}: over {LIMITS[score]:.0f} s")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
