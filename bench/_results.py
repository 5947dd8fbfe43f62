"""The files that benchmarks write: each replaces its own keys in results.json, and the table in README.md follows."""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import os
import platform
from pathlib import Path

RESULTS = Path(__file__).parent / "results.json"
TABLE = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- ratios: written by bench/_results.py -->\n", "<!-- end of ratios -->"

RATIOS = {
    "exporter_render_vs_generate_latest": (10.0, "a page of 8 GPUs × 120 series: prometheus_client's time ÷ ours"),
    "ingest_rollup_vs_api_client_pandas": (50.0, "64 GPUs × 25 metrics × 1 day @ 15 s → usage in DuckDB"),
    "ingest_json_vs_api_client": (10.0, "the same samples → a table in DuckDB, by the query API alone"),
    "peak_memory_vs_api_client": (1.6, "peak memory of the roll-up above"),
    "lake_bytes_vs_tsdb": (1.25, "Prometheus's bytes a sample ÷ the lake's"),
    "rollup_vs_duckdb_groupby": (0.6, "values/s of the roll-up, once stamped ÷ an in-memory DuckDB group-by's"),
    "sail_vs_duckdb": (0.66, "DuckDB's time for the roll-up ÷ Sail's on the same cores"),
    "scaling_10x": (0.8, "10 × the time at 1 × ÷ the time at 10 × the samples, from the lake"),
}
"""What each ratio is at least, and of what; a ratio without a line here has no limit."""


def record(*, scores: dict[str, float], ratios: dict[str, float] | None = None) -> None:
    """Merge numbers into ``bench/results.json``, renew the table of ratios, and print the numbers."""
    with Path(f"{RESULTS}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        results.setdefault("scores", {}).update(scores)
        results.setdefault("ratios", {}).update(ratios or {})
        results["machine"] = {
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "system": platform.platform(),
        }
        results["at"] = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        RESULTS.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")
        write_table(results["ratios"])
    Path(f"{RESULTS}.lock").unlink(missing_ok=True)
    for name, value in {**scores, **(ratios or {})}.items():
        print(f"{name:45} {value:10.3f}")


def write_table(ratios: dict[str, float]) -> None:
    """Put the ratios into README.md."""
    lines = ["| ratio | measured | at least | of what |", "|---|---|---|---|"]
    for name, value in sorted(ratios.items()):
        least, what = RATIOS.get(name, ("", ""))
        lines.append(f"| `{name}` | {value:.3g} | {least} | {what} |")
    before, _, rest = TABLE.read_text().partition(BEGIN)
    TABLE.write_text(before + BEGIN + "\n".join(lines) + "\n" + END + rest.partition(END)[2])
