"""The one file that benchmarks write: each replaces its own keys and leaves the others."""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import os
import platform
from pathlib import Path

RESULTS = Path(__file__).parent / "results.json"


def record(*, scores: dict[str, float], ratios: dict[str, float] | None = None) -> None:
    """Merge numbers into ``bench/results.json`` and print them."""
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
    Path(f"{RESULTS}.lock").unlink(missing_ok=True)
    for name, value in {**scores, **(ratios or {})}.items():
        print(f"{name:45} {value:10.3f}")
