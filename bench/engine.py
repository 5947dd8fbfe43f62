"""``sail_vs_duckdb``: the roll-up from the lake on one machine, over the same on Sail with the same cores.

Both do all of it, from the lake's files to usage, in turns; Sail's server and session are warm. Equal results are
asserted before the ratio is written. Ends by itself after some minutes, whatever the server does.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).parents[1]))

from polars.testing import assert_frame_equal

from bench._results import record
from bench.rollup import fill
from pipelines.config import Config
from pipelines.engine.connect import SparkEngine, missing
from pipelines.ledger import Ledger, open_ledger
from pipelines.metering import Metered, meter
from pipelines.sighting import Engine

AT_LEAST = {"sail_vs_duckdb": 0.66}
GPUS, DAYS, ROUNDS = 400, 2, 3
STARTS_WITHIN_S, ENDS_WITHIN_S = 60, 300


@contextmanager
def sail(folder: Path) -> Iterator[tuple[str, int]]:
    """Provide the URL and process id of a Sail server, in a group of processes of its own that is killed at the end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    url = f"sc://127.0.0.1:{port}"
    with (folder / "sail.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pysail", "spark", "server", "--ip", "127.0.0.1", "--port", str(port)],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + STARTS_WITHIN_S
        while (reason := missing(url)) is not None:
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"bench/engine.py: {reason}: {(folder / 'sail.log').read_text()[-300:]}")
            time.sleep(0.1)
        yield url, process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far (proc_pid_stat(5), fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def metered(ledger: Ledger, config: Config, engine: Engine | None, pid: int) -> tuple[float, float, Metered]:
    """Return how long it takes from the lake to usage, the CPU seconds of it here and in Sail, and the result."""
    begun, cpu = time.perf_counter(), time.process_time() + cpu_s(pid)
    result = meter(ledger.inputs(), config, engine=engine)
    return time.perf_counter() - begun, time.process_time() + cpu_s(pid) - cpu, result


def too_long(_signal: int, _frame: object) -> NoReturn:
    raise SystemExit(f"bench/engine.py: not done after {ENDS_WITHIN_S} s")


def main() -> int:
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(ENDS_WITHIN_S)
    here: list[tuple[float, float]] = []  # seconds, CPU seconds
    there: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-") as name:
        folder = Path(name)
        config, samples = fill(folder / "fleet", GPUS, DAYS)
        with (
            open_ledger(config.ledger, "a benchmark") as ledger,
            sail(folder) as (url, pid),
            SparkEngine(url) as engine,
        ):
            metered(ledger, config, engine, pid)
            metered(ledger, config, None, pid)
            for _ in range(ROUNDS):
                *spent, expected = metered(ledger, config, None, pid)
                here.append((spent[0], spent[1]))
                *spent, found = metered(ledger, config, engine, pid)
                there.append((spent[0], spent[1]))
                assert_frame_equal(found.usage, expected.usage, check_exact=True)
                assert_frame_equal(found.leases, expected.leases, check_exact=True)
    print(f"{samples:,} samples, {expected.usage.height:,} equal rows of usage; load {os.getloadavg()[0]:.1f}")
    print("here   ", *(f"{seconds:.2f} s ({cpu:.2f} s of CPU)" for seconds, cpu in here))
    print("on Sail", *(f"{seconds:.2f} s ({cpu:.2f} s of CPU)" for seconds, cpu in there))
    ratio = min(here)[0] / min(there)[0]
    scores = {
        "engine_here_s": min(here)[0], "engine_on_sail_s": min(there)[0], "engine_load_average": os.getloadavg()[0],
        "engine_here_cpu_s": min(cpu for _, cpu in here), "engine_on_sail_cpu_s": min(cpu for _, cpu in there),
    }  # fmt: skip
    record(scores=scores, ratios={"sail_vs_duckdb": ratio})
    if ratio < AT_LEAST["sail_vs_duckdb"]:
        print("under its least: sail_vs_duckdb", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
