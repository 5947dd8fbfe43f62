"""A day of 64 GPUs out of a real Prometheus, against prometheus-api-client and pandas doing the same work.

Both sides are warm, in processes of their own, and are timed from the first request to the commit; what they commit is
compared before a ratio is written. Exits 1 when a ratio is under its limit.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import duckdb

from bench._gpu_day import START_MS, TENANTS, GpuDay, simulate, write_blocks
from bench._results import record
from exporter.catalog import resolve

AT_LEAST = {
    "ingest_rollup_vs_api_client_pandas": 50.0,
    "ingest_json_vs_api_client": 10.0,
    "peak_memory_vs_api_client": 1.6,
    "lake_bytes_vs_tsdb": 1.25,
}
CARDS, INTERVAL_S, RUNS = 64, 15, 3
HERE = Path(__file__).parent
BASELINE = HERE.parent / ".venv-bench" / "bin" / "python"
CONFIG = f"""\
currency: USD
scrape_interval: {INTERVAL_S}s
sources: [{{prometheus: "%s", cluster: bench}}]
tenants:
{"".join(f"  - {{id: team-{n}, match: [{{namespace: team-{n}}}]}}" + chr(10) for n in range(TENANTS))}\
rates: [{{model: "*", on_demand: "2.50"}}]
"""
OURS = """
-- grain: hour, card and namespace
SELECT u.start // 3600000 AS hour, u.device, l.namespace, sum(u."end" - u.start) AS held_ms,
    sum(busy_observed_ms), sum(busy_ppb_ms), sum(sm_active_ratio_observed_ms), sum(sm_active_ratio_ppb_ms),
    sum(tensor_active_ratio_observed_ms), sum(tensor_active_ratio_ppb_ms), sum(dram_active_ratio_observed_ms),
    sum(dram_active_ratio_ppb_ms), sum(memory_byte_ms), sum(energy_joules)
FROM usage AS u JOIN lease AS l ON l.id = u.lease GROUP BY ALL ORDER BY hour, device, namespace
"""
THEIRS = """
-- grain: hour, card and namespace
SELECT hour, UUID AS device, exported_namespace AS namespace, held_ms, busy_observed_ms, busy_ppb_ms,
    sm_active_ratio_observed_ms, sm_active_ratio_ppb_ms, tensor_active_ratio_observed_ms, tensor_active_ratio_ppb_ms,
    dram_active_ratio_observed_ms, dram_active_ratio_ppb_ms, memory_byte_ms, energy_joules
FROM usage ORDER BY hour, device, namespace
"""


@contextmanager
def prometheus(folder: Path) -> Iterator[str]:
    """A Prometheus over the blocks in a folder; yields its URL."""
    with socket.socket() as any_free:
        any_free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{any_free.getsockname()[1]}"
    (folder / "prometheus.yml").write_text("{}\n")
    command = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}",
               "--storage.tsdb.retention.time=100y", f"--web.listen-address={address}"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://{address}/-/ready", timeout=1).close()
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait()


class Bench:
    """Runs one side's work and keeps what it committed.

    Args:
        folder: takes everything.
        url: of the Prometheus.
    """

    def __init__(self, folder: Path, url: str, day: GpuDay) -> None:
        self._folder, self._day = folder, day
        config = folder / "gpuledger.yaml"
        config.write_text(CONFIG % url)
        metrics = {}
        for name in day.values:
            resolved = resolve(name)
            assert resolved is not None, name
            metric, scale, _ = resolved
            metrics[name] = {"key": metric.key, "scale": scale, "unit": metric.unit, "minimum": metric.minimum,
                             "maximum": metric.maximum}  # fmt: skip
        self._arguments: dict[str, Any] = {
            "url": url, "config": str(config), "metrics": metrics, "times": RUNS,
            "start": datetime.fromtimestamp(START_MS / 1000, UTC).isoformat(),
        }  # fmt: skip

    def ours(self, work: str) -> tuple[dict[str, Any], Path]:
        """What GPULedger took, and what it committed."""
        told, folder = self._run(sys.executable, "_ingest_ours.py", work, f"ours-{work}")
        return {**told, "seconds": statistics.median(told["seconds"])}, folder / f"run{RUNS - 1}"

    def theirs(self, work: str) -> tuple[dict[str, Any], Path]:
        """What the baseline took, and what it committed."""
        told, folder = self._run(str(BASELINE), "_ingest_pandas.py", work, f"theirs-{work}")
        return told, folder / "run.duckdb"

    def _run(self, python: str, program: str, work: str, name: str) -> tuple[dict[str, Any], Path]:
        folder = self._folder / name
        folder.mkdir()
        arguments = folder / "arguments.json"
        arguments.write_text(json.dumps({**self._arguments, "work": work, "folder": str(folder)}))
        done = subprocess.run([python, str(HERE / program), str(arguments)], stdout=subprocess.PIPE, check=True)
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        print(f"{name:22} {told['seconds']} s, peak {told['peak_mb']:.0f} MB, load {os.getloadavg()[0]:.1f}")
        return told, folder


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    """What was committed."""
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(query).fetchall()


def assert_same_usage(ours: Path, theirs: Path) -> int:
    """Compare hour by hour, and return the rows compared: times and whole billionths exactly, floats to 1e-9."""
    mine, others = rows(ours, OURS), rows(theirs, THEIRS)
    assert len(mine) == len(others) > 0, (len(mine), len(others))
    for row, other in zip(mine, others, strict=True):
        assert row[:12] == other[:12], (row, other)
        for value, its in zip(row[12:], other[12:], strict=True):
            assert value == its or abs(value - its) <= 1e-9 * abs(its), (row, other)
    return len(mine)


def assert_same_samples(ours: Path, theirs: Path, day: GpuDay) -> int:
    """Compare every value of every metric, and return the samples compared; blanks are left out on both sides."""
    compared = 0
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{ours}' AS ours (READ_ONLY)").execute(f"ATTACH '{theirs}' AS theirs (READ_ONLY)")
        for name in day.values:
            metric, scale, _ = resolve(name) or (None, 0.0, "")
            assert metric is not None
            # Where no workload is named, the pod is the exporter's.
            owner = "CASE WHEN pod NOT LIKE 'nvidia-dcgm-exporter-%' THEN pod END"
            mine = f"SELECT device, epoch_ms(time), {owner}, replica, {metric.key} FROM ours.sample"
            its = "SELECT UUID, time, exported_pod, prometheus_replica, value * ? FROM theirs.sample"
            (missing, left, count), = connection.execute(
                f"""WITH mine AS ({mine} WHERE isfinite({metric.key})),
                its AS ({its} WHERE metric = ? AND value < 9.2e18)
                SELECT (SELECT count(*) FROM (FROM its EXCEPT ALL FROM mine)),
                       (SELECT count(*) FROM (FROM mine EXCEPT ALL FROM its)), (SELECT count(*) FROM mine)""",
                [scale, name],
            ).fetchall()  # fmt: skip
            assert (missing, left) == (0, 0), (name, missing, left)
            compared += count
    return compared


def main() -> int:
    day = simulate(CARDS, INTERVAL_S)
    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-") as name:
        folder = Path(name)
        begun = time.perf_counter()
        write_blocks(day, folder / "tsdb")
        stored = sum(file.stat().st_size for file in (folder / "tsdb").rglob("*") if file.is_file())
        print(f"{day.samples:,} samples in {stored / 1e6:.1f} MB of blocks, in {time.perf_counter() - begun:.0f} s")
        with prometheus(folder) as url:
            bench = Bench(folder, url, day)
            rolled, usage = bench.ours("roll_up")
            read, _ = bench.ours("read")
            lake, _ = bench.ours("write_lake")
            by_json, samples = bench.ours("store_samples")
            pandas, their_usage = bench.theirs("roll_up")
            print(f"{assert_same_usage(usage, their_usage):,} rows of usage are the same")
            frames, their_samples = bench.theirs("store_samples")
            print(f"{assert_same_samples(samples, their_samples, day):,} samples are the same")
    scores = {
        "ingest_read_s": read["seconds"], "ingest_rollup_s": rolled["seconds"], "ingest_json_s": by_json["seconds"],
        "ingest_rollup_peak_mb": rolled["peak_mb"], "ingest_lake_bytes_per_sample": lake["result"] / day.samples,
        "ingest_tsdb_bytes_per_sample": stored / day.samples, "ingest_read_and_lake_s": lake["seconds"],
        "api_client_pandas_rollup_s": pandas["seconds"], "api_client_samples_s": frames["seconds"],
        "api_client_pandas_peak_mb": pandas["peak_mb"], "ingest_load_average": os.getloadavg()[0],
    }  # fmt: skip
    ratios = {
        "ingest_rollup_vs_api_client_pandas": pandas["seconds"] / rolled["seconds"],
        "ingest_json_vs_api_client": frames["seconds"] / by_json["seconds"],
        "peak_memory_vs_api_client": pandas["peak_mb"] / rolled["peak_mb"],
        "lake_bytes_vs_tsdb": stored / lake["result"],
    }
    record(scores=scores, ratios=ratios)
    under = [name for name, limit in AT_LEAST.items() if ratios[name] < limit]
    for name in under:
        print(f"under its limit: {name}", file=sys.stderr)
    return 1 if under else 0


if __name__ == "__main__":
    sys.exit(main())
