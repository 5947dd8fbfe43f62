"""A year of 1,000 GPUs, 200 tenants and 50,000 leases a month: rated, and closed month by month.

Usage is made here as the roll-up makes it (UTC hours, cut at every lease), without the year of samples behind it. What
is timed is what `gpuledger close` does to a month once the ledger is read: rate it, report it, make every tenant's
statement, write and chain the folder; not publishing, reading the ledger or PDFs. ``books_year_s`` is its wall
time; CPU time and the machine's load before and after stand beside it, for on a busy machine wall time says little.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench._results import record
from pipelines.book.reckoning import Reckoned
from pipelines.book.shelf import FOLDER, shelf
from pipelines.book.writing import Act, write
from pipelines.config import Config, load
from pipelines.instants import HOUR_MS
from pipelines.metering import LEASE, OUTAGE, Metered
from pipelines.observations import PPB, RATIOS
from pipelines.periods import Period, parse_period
from pipelines.rating import rate
from pipelines.rollup import USAGE
from pipelines.statement import make_report, within_of

GPUS, TENANTS, LEASES, MONTHS = 1_000, 200, 50_000, 12
MODELS = ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB")


def configuration(folder: Path) -> Config:
    tenants = "".join(
        f'  - {{id: t{n:03d}, quota: {{gpus: 8}}, budget: {{monthly: "20000.00"}}}}\n' for n in range(TENANTS)
    )
    reserved = "".join(
        f'  - {{id: r{n}, tenant: t{n:03d}, model: "*H100*", gpus: 4, from: 2026-01-01, to: 2027-01-01}}\n'
        for n in range(0, TENANTS, 4)
    )
    (folder / "gpuledger.yaml").write_text(
        f"""currency: USD
timezone: UTC
tenants:
{tenants}rates:
  - {{model: "*H100*", on_demand: "3.20", reserved: "2.10", overflow: "3.50"}}
  - {{model: "*", on_demand: "2.005"}}
reservations:
{reserved}overheads:
  - {{name: storage, monthly: "12000.00", split: proportional}}
idle: {{policy: proportional}}
energy: {{price_per_kwh: "0.12", pue: "1.3", carbon_g_per_kwh: "380", charge: true}}
closing: {{formats: []}}
"""
    )
    return load(folder / "gpuledger.yaml")


def month(period: Period, seed: int) -> Metered:
    """A month's leases back to back on every GPU, a tenth of the time idle, cut at UTC hours."""
    rng = np.random.default_rng(seed)
    start, end = within_of(period)
    per_gpu = LEASES // GPUS
    edges = np.sort(rng.integers(start // 60_000, end // 60_000, (GPUS, 2 * per_gpu - 1)), axis=1) * 60_000
    edges = np.concatenate([np.full((GPUS, 1), start), edges, np.full((GPUS, 1), end)], axis=1)
    edges.sort(axis=1)
    starts, ends = edges[:, :-1].ravel(), edges[:, 1:].ravel()
    gpu = np.repeat(np.arange(GPUS), 2 * per_gpu)
    held = np.tile(np.arange(2 * per_gpu) % 2 == 0, GPUS)
    spans = pl.DataFrame({"gpu": gpu, "start": starts, "end": ends, "held": held}).filter(
        pl.col("end") > pl.col("start")
    )
    spans = spans.with_row_index("n").with_columns(
        device=pl.format("GPU-{}", pl.col("gpu")),
        node=pl.format("node{}", pl.col("gpu") // 8),
        model=pl.when(pl.col("gpu") % 2 == 0).then(pl.lit(MODELS[0])).otherwise(pl.lit(MODELS[1])),
        id=pl.format("lease-{}-{}", pl.lit(seed), pl.col("n")),
        tenant=pl.format("t{}", pl.Series(rng.integers(0, TENANTS, len(spans))).cast(pl.String).str.zfill(3)),
    )
    rows = (
        spans.with_columns(
            hour=pl.int_ranges(pl.col("start") // HOUR_MS, (pl.col("end") - 1) // HOUR_MS + 1, dtype=pl.Int64)
        )
        .explode("hour")
        .with_columns(
            start=pl.max_horizontal("start", pl.col("hour") * HOUR_MS),
            end=pl.min_horizontal("end", (pl.col("hour") + 1) * HOUR_MS),
        )
    )
    length = pl.col("end") - pl.col("start")
    busy = rng.integers(0, PPB, rows.height)  # each hour its own: sums of a month have no small common denominator
    usage = rows.select(
        pl.lit("prod").alias("cluster"), "node", "device", pl.lit(None).alias("instance"),
        pl.lit(None).alias("profile"), "model", pl.lit(None).alias("owner"),
        pl.when("held").then(pl.lit("allocated")).otherwise(pl.lit("idle")).alias("state"),
        pl.when("held").then("id").alias("lease"), "start", "end", pl.lit(1).alias("weight_num"),
        pl.lit(1).alias("weight_den"),
        *(pl.when("held").then(length).otherwise(0).alias(f"{name}_observed_ms") for name in RATIOS),
        *(pl.when("held").then(length * pl.Series(busy)).otherwise(0).alias(f"{name}_ppb_ms") for name in RATIOS),
        pl.lit(0.0).alias("memory_byte_ms"), (length * 0.4).alias("energy_joules"),
    ).select(pl.col(c).cast(t) for c, t in USAGE.items())  # fmt: skip
    own = spans.filter("held").with_columns(
        cluster=pl.lit("prod"),
        kind=pl.lit("allocations"),
        workload="id",
        whole_start="start",
        guessed=pl.lit(value=False),
    )
    leases = own.select((pl.col(c) if c in own.columns else pl.lit(None).alias(c)).cast(t) for c, t in LEASE.items())
    return Metered(leases, usage, pl.DataFrame(schema=OUTAGE), [], (start, end))


def main(months: int) -> None:
    rating = closing = wall = 0.0
    rows = leases = 0
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        config = configuration(Path(folder))
        books = config.ledger / FOLDER
        for number in range(1, months + 1):
            name = f"2026-{number:02d}"
            period = parse_period(name, config.timezone)
            metered = month(period, number)
            rows, leases = rows + metered.usage.height, leases + metered.leases.height
            now = datetime(2027, 1, 15, tzinfo=UTC)
            began, at = time.process_time(), time.perf_counter()
            rated = rate(metered, config, within_of(period))
            report = make_report(rated, config, period, rated.findings, now)
            rating += time.process_time() - began
            began = time.process_time()
            reckoned = Reckoned(config, rated, report, [], [])
            done = write(books, shelf(books), reckoned, metered, config, Act(name, now, "bench"))
            closing += time.process_time() - began
            wall += time.perf_counter() - at
            print(f"{done}; so far rated in {rating:.1f} s, closed in {closing:.1f} s", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    after = os.getloadavg()[0]
    print(
        f"{months} months: {rows:,} rows of usage, {leases:,} leases; {wall:.1f} s, CPU {rating + closing:.1f} s ("
        f"rating {rating:.1f}, closing {closing:.1f}); peak {peak:,.0f} MB; load {before:.1f} before, {after:.1f} after"
    )
    if months == MONTHS:
        record(
            scores={
                "books_year_s": round(wall, 1),
                "books_year_rate_cpu_s": round(rating, 1),
                "books_year_close_cpu_s": round(closing, 1),
                "books_peak_mb": round(peak),
                "books_load_before": round(before, 1),
                "books_load_after": round(after, 1),
            }
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else MONTHS)
