"""Jobs of known causes as a replay directory: samples, configuration, and what is right in truth.json."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import yaml

from pipelines.simulate.behaviours.jobs import HOURS, Job, draw_jobs
from pipelines.tables import SAMPLE_LABELS, TIME

START: Final = int(datetime(2026, 11, 2, tzinfo=UTC).timestamp())
_STAGGER: Final = 7919  # seconds between starts, so that hours cut jobs anywhere
_SPREAD: Final = 86_400
_CARDS_A_NODE: Final = 8
_AT_ONCE: Final = 100

Progress = Callable[[int, int], None]


def simulate_jobs(
    out: Path,
    *,
    jobs: int,
    seed: int,
    hours: tuple[float, float] = HOURS,
    missing: float = 0.0,
    progress: Progress | None = None,
) -> None:
    """Write jobs as a replay directory with the truth about each.

    Args:
        hours: bounds of a job's length.
        missing: share of the metrics that each job's exporter lacks, other ones for each job.
        progress: called with the jobs written and the jobs in all.

    Raises:
        OSError: the directory can't be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    folder = out / "samples"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.parquet"):
        old.unlink()
    told, last = [], START
    for place, some in enumerate(_batches(draw_jobs(jobs, seed=seed, hours=hours))):
        frames = [frame for job in some for frame in _samples(job, seed, missing)]
        pl.concat(frames, how="diagonal").write_parquet(
            folder / f"jobs-{place:03d}.parquet", compression="zstd", compression_level=1
        )
        told += [_truth(job) for job in some]
        last = max(last, *(_start(job) + int(job.seconds) for job in some))
        if progress:
            progress(len(told), jobs)
    (out / "truth.json").write_text(json.dumps({"workloads": told}, indent=1) + "\n", encoding="utf-8")
    (out / "gpuledger.yaml").write_text(_configuration(jobs, seed, last), encoding="utf-8")


def _batches(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    some: list[Job] = []
    for job in jobs:
        some.append(job)
        if len(some) == _AT_ONCE:
            yield some
            some = []
    if some:
        yield some


def _start(job: Job) -> int:
    return START + job.number * _STAGGER % _SPREAD


def _samples(job: Job, seed: int, missing: float) -> Iterator[pl.DataFrame]:
    keys = sorted({key for _, columns in job.ranks for key in columns})
    rng = np.random.default_rng([seed, job.number, 1])
    lacks = set(rng.choice(keys, int(len(keys) * missing), replace=False).tolist())
    for rank, (seconds, columns) in enumerate(job.ranks):
        labels = {
            "cluster": "simulated",
            "node": f"node-{job.number:04d}-{rank // _CARDS_A_NODE}",
            "device": f"GPU-{job.number:08d}-{rank:04d}",
            "model": job.model,
            "index": str(rank % _CARDS_A_NODE),
            "namespace": "lab",
            "pod": job.name,
        }
        values = {key: column for key, column in columns.items() if key not in lacks}
        frame = pl.DataFrame({"ms": np.rint((_start(job) + seconds) * 1000).astype(np.int64), **values})
        yield frame.select(
            pl.col("ms").cast(TIME).alias("time"),
            *(pl.lit(labels.get(name), pl.String).alias(name) for name in SAMPLE_LABELS if name != "time"),
            *values,
        )


def _truth(job: Job) -> dict[str, object]:
    return {
        "workload": f"lab/{job.name}",
        "family": job.family,
        "bottleneck": job.cause,
        "unseen": job.unseen,
        "model": job.model,
        "devices": len(job.ranks),
        "interval": job.interval,
    }


def _configuration(jobs: int, seed: int, last: int) -> str:
    settings = {
        "currency": "USD",
        "timezone": "UTC",
        "sources": [{"samples": "samples", "cluster": "simulated"}],
        "tenants": [{"id": "lab", "match": [{"namespace": "lab"}]}],
        "rates": [{"model": "*", "on_demand": "2.50"}],
        "window": {"from": _utc(START), "to": _utc(last // 3600 * 3600 + 3600)},
    }
    about = f"# {jobs} simulated jobs (seed {seed}); truth.json says what is the matter with each.\n"
    return about + yaml.safe_dump(settings, sort_keys=False)


def _utc(time: int) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
