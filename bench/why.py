"""How often the analysis is right about why jobs are slow, over simulated jobs of known causes.

Every job goes through the whole pipeline (`replay`). A third of the families, all cards and one interval of the jobs
were kept apart: no threshold was looked at with them, and only they count as hold-out. Two simple ways to answer run
beside it: GPU_UTIL alone, and the rules of thumb over each job's means. `--write` puts the numbers into
docs/bottlenecks.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import polars as pl

from bench._results import record
from pipelines.operations import replay
from pipelines.simulate.behaviours.jobs import FAMILIES
from pipelines.simulate.behaviours.scenes import simulate_jobs

ROUNDS, SEED = 12, 2026
ACCUSING = ("idle", "overprovisioned")
UNKNOWN = "unknown"
LIMITS = {"why_macro_f1_holdout": 0.9, "why_precision_accusing": 0.95}
DOCUMENT = Path(__file__).parents[1] / "docs" / "bottlenecks.md"
MEASURED = "## How often it is right\n"

Truth = list[dict[str, object]]
Answers = Mapping[str, str]


@dataclass(frozen=True)
class Score:
    """Answers against the truth, over the causes that occur in it."""

    pairs: Counter[tuple[str, str]]  # (truth, answer)

    @property
    def causes(self) -> list[str]:
        """Causes that occur in the truth."""
        return sorted({truth for truth, _ in self.pairs})

    def precision(self, cause: str) -> float | None:
        """Share of right answers among those that name a cause; None: nobody named it."""
        given = sum(n for (_, answer), n in self.pairs.items() if answer == cause)
        return self.pairs[cause, cause] / given if given else None

    def recall(self, cause: str) -> float:
        """Share of the jobs of a cause that were told."""
        return self.pairs[cause, cause] / sum(n for (truth, _), n in self.pairs.items() if truth == cause)

    @property
    def macro_f1(self) -> float:
        """Mean over the causes of the harmonic mean of precision and recall."""
        f1 = [2 / (1 / p + 1 / r) if (p := self.precision(c)) and (r := self.recall(c)) else 0.0 for c in self.causes]
        return sum(f1) / len(f1)

    def precision_of(self, causes: Iterable[str]) -> float:
        """Share of right answers among all that name one of some causes."""
        wanted = set(causes)
        given = {pair: n for pair, n in self.pairs.items() if pair[1] in wanted}
        return sum(n for (truth, answer), n in given.items() if truth == answer) / sum(given.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="jobs of each family")
    parser.add_argument("--write", action="store_true", help="put the numbers into docs/bottlenecks.md")
    options = parser.parse_args()
    jobs = options.rounds * len(FAMILIES)
    with tempfile.TemporaryDirectory(prefix="gpuledger-why-") as folder:
        whole, thinned = Path(folder, "whole"), Path(folder, "thinned")
        simulate_jobs(whole, jobs=jobs, seed=SEED)
        simulate_jobs(thinned, jobs=jobs, seed=SEED, missing=1 / 3)
        truth: Truth = json.loads((whole / "truth.json").read_text())["workloads"]
        started = time.perf_counter()
        answers = {"all metrics": answered(whole)}
        seconds = time.perf_counter() - started
        answers["a third missing"] = answered(thinned)
        means = job_means(whole)
    answers["GPU_UTIL"] = by_gpu_util(means, truth)
    answers["rules of thumb"] = by_thumb(means)
    unseen = [job for job in truth if job["unseen"]]
    scores = {name: score(unseen, found) for name, found in answers.items()}
    seen = score([job for job in truth if not job["unseen"]], answers["all metrics"])
    numbers = {
        "why_jobs": float(jobs),
        "why_jobs_holdout": float(len(unseen)),
        "why_macro_f1_holdout": scores["all metrics"].macro_f1,
        "why_macro_f1_seen": seen.macro_f1,
        "why_precision_accusing": scores["all metrics"].precision_of(ACCUSING),
        "why_precision_holdout": precision(scores["all metrics"]),
        "why_recall_holdout": recall(scores["all metrics"]),
        "why_precision_third_missing": precision(scores["a third missing"]),
        "why_recall_third_missing": recall(scores["a third missing"]),
        "why_precision_accusing_third_missing": scores["a third missing"].precision_of(ACCUSING),
        "why_macro_f1_gpu_util_rule": scores["GPU_UTIL"].macro_f1,
        "why_macro_f1_thumb_rules": scores["rules of thumb"].macro_f1,
        "why_replay_s": seconds,
    }
    record(scores=numbers)
    report = told(numbers, scores)
    print(report)
    if options.write:
        text = DOCUMENT.read_text(encoding="utf-8")
        DOCUMENT.write_text(text.partition(MEASURED)[0] + MEASURED + report, encoding="utf-8")
    missed = [name for name, limit in LIMITS.items() if numbers[name] < limit]
    for name in missed:
        print(f"{name} is {numbers[name]:.3f}, below {LIMITS[name]}", file=sys.stderr)
    return 1 if missed else 0


def answered(folder: Path) -> Answers:
    """What the pipeline's report says of each workload."""
    report = replay(folder)
    return {w.workload: w.bottleneck or UNKNOWN for t in report.tenants for w in t.workloads}


def score(truth: Truth, found: Answers) -> Score:
    return Score(Counter((str(job["bottleneck"]), found.get(str(job["workload"]), UNKNOWN)) for job in truth))


def precision(of: Score) -> float:
    """Share of right answers among those that name a cause."""
    named = {pair: n for pair, n in of.pairs.items() if pair[1] != UNKNOWN}
    return sum(n for (truth, answer), n in named.items() if truth == answer) / sum(named.values())


def recall(of: Score) -> float:
    """Share of jobs with a cause to be told whose cause was told."""
    told_of = {pair: n for pair, n in of.pairs.items() if pair[0] != UNKNOWN}
    return sum(n for (truth, answer), n in told_of.items() if truth == answer) / sum(told_of.values())


def job_means(folder: Path) -> pl.DataFrame:
    """grain: job; means of its metrics over time and devices, and what rules of thumb look at besides."""
    rank = ["namespace", "pod", "device"]
    sm, used = pl.col("sm_active_ratio"), pl.col("memory_used_bytes") / pl.col("memory_total_bytes")
    bits = pl.col("throttle_reasons_bitmask").cast(pl.Int64)
    clock = pl.col("sm_clock_hertz") / pl.col("sm_clock_maximum_hertz")
    ranks = (
        pl.concat([pl.scan_parquet(path) for path in sorted((folder / "samples").glob("*.parquet"))], how="diagonal")
        .group_by(rank)
        .agg(
            util=pl.col("gpu_util_ratio").mean(),
            engine=pl.col("engine_active_ratio").mean(),
            sm=sm.mean(),
            deviation=sm.std(),
            tensor=pl.col("tensor_active_ratio").mean(),
            dram=pl.col("dram_active_ratio").mean(),
            pcie=pl.max_horizontal("pcie_receive_bytes_per_second", "pcie_transmit_bytes_per_second").mean(),
            link=pl.col("nvlink_receive_bytes_per_second").mean(),
            memory=used.max(),
            power=((bits & (4 | 128)) > 0).mean(),
            heat=((bits & (32 | 64)) > 0).mean(),
            clock=clock.filter(pl.col("gpu_util_ratio") > 0.5).mean(),
        )
        .collect()
    )
    off = (pl.col("sm") - pl.col("sm").median().over("pod")).abs()
    z = off / (1.4826 * off.median().over("pod")).clip(lower_bound=0.01)
    return (
        ranks.with_columns(z=pl.when(pl.len().over("pod") >= 3).then(z).otherwise(0.0))
        .group_by("namespace", "pod")
        .agg(
            pl.all().exclude("device", "memory", "z", "clock").mean(),
            pl.col("memory", "z").max(),
            pl.col("clock").min(),
        )
        .with_columns(workload=pl.concat_str("namespace", "pod", separator="/"))
        .sort("workload")
    )


def by_gpu_util(means: pl.DataFrame, truth: Truth) -> Answers:
    """GPU_UTIL alone: idle below one limit, waiting for input below another, else computing; the best two limits."""

    def answers(low: float, high: float) -> Answers:
        return {w: "idle" if u < low else "input" if u < high else "compute" for w, u in utils}

    utils = list(means.select("workload", "util").iter_rows())
    seen = [job for job in truth if not job["unseen"]]
    grid = product((0.02, 0.05, 0.1, 0.15, 0.2), (0.3, 0.5, 0.6, 0.7, 0.8, 0.9))
    return answers(*max(grid, key=lambda limits: score(seen, answers(*limits)).macro_f1))


def by_thumb(means: pl.DataFrame) -> Answers:
    """The rules of thumb as they are written down, in their order of urgency, over each job's means."""
    c = pl.col
    rules = (
        (
            "idle",
            (c("engine").fill_null(c("util")) < 0.05) & (c("sm").fill_null(0) < 0.05) & (c("dram").fill_null(0) < 0.05),
        ),
        ("thermal", (c("heat") > 0.05) & (c("clock") < 0.9)),
        ("power", (c("power") > 0.05) & (c("clock") < 0.9)),
        ("straggler", c("z") > 3.5),
        ("host_copies", (c("pcie") >= 1e9) & (c("sm") < 0.3)),
        ("communication", (c("tensor") / c("sm") < 0.2) & (c("sm") > 0.5) & (c("link") > 2e10)),
        ("input", (c("deviation") > 0.2) & (c("pcie") < 1e9)),
        ("memory_bandwidth", (c("dram") >= 0.5) & (c("sm") < 0.5)),
        ("no_tensor_cores", (c("sm") >= 0.5) & (c("tensor") < 0.02)),
        ("compute", ((c("tensor") >= 0.5) & (c("sm") >= 0.6)) | (c("sm") >= 0.8)),
        ("overprovisioned", c("memory") < 0.5),
    )
    answer = pl.lit(UNKNOWN)
    for cause, rule in reversed(rules):
        answer = pl.when(rule.fill_null(value=False)).then(pl.lit(cause)).otherwise(answer)
    return dict(means.select("workload", answer=answer).iter_rows())


def told(numbers: Mapping[str, float], scores: Mapping[str, Score]) -> str:
    """The measured part of docs/bottlenecks.md."""
    jobs, held_out = round(numbers["why_jobs"]), round(numbers["why_jobs_holdout"])
    lines = [
        "",
        f"`make bench-why ARGS=--write` drew {jobs} jobs (seed {SEED}) and put each through the whole pipeline.",
        f"{held_out} are of families, cards and an interval that no threshold ever saw; only they count here:",
        "",
        "| answers by | macro-F1 | precision of named causes | recall | precision of accusations |",
        "|---|---|---|---|---|",
    ]
    for name, of in scores.items():
        accusing = of.precision_of(ACCUSING)
        lines.append(f"| {name} | {of.macro_f1:.3f} | {precision(of):.3f} | {recall(of):.3f} | {accusing:.3f} |")
    lines += ["", "Truth by row, answer by column, all metrics:", "", *_matrix(scores["all metrics"])]
    lines += ["", "The same with a third of the metrics missing, other ones for each job:", ""]
    return "\n".join([*lines, *_matrix(scores["a third missing"]), ""])


def _matrix(of: Score) -> list[str]:
    columns = sorted({answer for _, answer in of.pairs} | set(of.causes))
    lines = ["| | " + " | ".join(columns) + " | recall |", "|---|" + "---|" * (len(columns) + 1)]
    for truth in of.causes:
        cells = [str(of.pairs[truth, answer] or "") for answer in columns]
        lines.append(f"| **{truth}** | " + " | ".join(cells) + f" | {of.recall(truth):.2f} |")
    shares = [of.precision(answer) for answer in columns]
    lines.append("| precision | " + " | ".join("" if p is None else f"{p:.2f}" for p in shares) + " | |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
