"""The other side of the ingest benchmark: what a careful user writes with prometheus-api-client and pandas.

It runs in an environment of its own (requirements/bench.txt) and knows nothing of GPULedger but the valid ranges of
the metrics, which it is handed. Same samples in, same usage out: `bench/ingest.py` compares the two.

    python bench/_ingest_pandas.py ARGUMENTS.json
"""

from __future__ import annotations

import json
import resource
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from prometheus_api_client import MetricRangeDataFrame, PrometheusConnect

INTERVAL_MS, HOUR_MS = 15_000, 3_600_000
REACH_MS = INTERVAL_MS * 3 // 2
FROZEN_SCRAPES, FROZEN_MS, CONTRADICTION_MS = 5, 180_000, HOUR_MS
PPB = 1_000_000_000
LABELS = ["UUID", "prometheus_replica", "exported_namespace", "exported_pod"]
POWER, ENERGY, MEMORY = "power_watts", "energy_joules_total", "memory_used_bytes"
BUSY = ["engine_active_ratio", "gpu_util_ratio"]
RATIOS = ["sm_active_ratio", "tensor_active_ratio", "dram_active_ratio"]


def fetch(client: PrometheusConnect, name: str, start: datetime, end: datetime) -> pd.DataFrame:
    """One metric as a frame: the labels that matter as categories, ``time`` in ms, ``value`` as exposed."""
    answer = client.get_metric_range_data(metric_name=name, start_time=start, end_time=end)
    frame = MetricRangeDataFrame(answer, ts_as_datetime=False)
    frame = pd.DataFrame(frame).reindex(columns=[*LABELS, "value"]).reset_index()
    frame["time"] = (frame.pop("timestamp") * 1000).round().astype("int64")
    return frame.astype(dict.fromkeys(LABELS, "category"))


def valid(frame: pd.DataFrame, metric: dict[str, Any], powered: pd.Index) -> tuple[pd.DataFrame, int]:
    """The frame in base units without values that can't be, and how many those were."""
    value = frame["value"].where(~((frame["value"] >= 9.2e18) & np.isfinite(frame["value"]))) * metric["scale"]
    bad = ~np.isfinite(value) | (value < metric["minimum"]) | (value > metric["maximum"])
    if metric["unit"] == "celsius":
        cold = frame[value == 0]
        bad.loc[cold.index] |= pd.MultiIndex.from_frame(cold[["UUID", "time"]]).isin(powered)
    if metric["unit"] == "ratio":
        value = value.clip(upper=1.0)
    return frame.assign(value=value)[~bad], int(bad.sum())


def once(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per card and time, which index it: of two replicas the first by name counts."""
    order = frame.assign(replica=frame["prometheus_replica"].cat.codes).sort_values(["UUID", "time", "replica"])
    return order.drop_duplicates(["UUID", "time"]).set_index(["UUID", "time"])


def until(times: pd.Series, cards: pd.Series) -> pd.Series:
    """How long each scrape stands: to the next if that comes within 1.5 intervals, else one interval."""
    following = times.groupby(cards, observed=True).shift(-1)
    return following.where(following - times <= REACH_MS, times + INTERVAL_MS).astype("int64")


def by_hour(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of [start, end) cut at full hours, with ``hour`` and ``ms``."""
    pieces = (rows["end"] - 1) // HOUR_MS - rows["start"] // HOUR_MS + 1
    cut = rows.loc[rows.index.repeat(pieces)].copy()
    nth = cut.groupby(level=0).cumcount().to_numpy()
    cut["hour"] = cut["start"] // HOUR_MS + nth
    first, last = cut["hour"] * HOUR_MS, (cut["hour"] + 1) * HOUR_MS
    cut["ms"] = np.minimum(cut["end"], last) - np.maximum(cut["start"], first)
    return cut.reset_index(drop=True)


def frozen(wide: pd.DataFrame) -> pd.Series:
    """Where an energy counter that has moved before stands still while the card draws power."""
    counter = wide[wide[ENERGY].notna()]
    moved = counter.groupby("UUID", observed=True)[ENERGY].diff().fillna(0) != 0
    run = moved.groupby(counter["UUID"], observed=True).cumsum().rename("run")
    groups = counter.assign(run=run, on=counter[POWER] > 0).groupby(["UUID", "run"], observed=True)
    found = groups.agg(first=("time", "first"), last=("time", "last"), scrapes=("on", "sum"), always=("on", "all"))
    still = found[
        (found.index.get_level_values("run") > 0)
        & (found["scrapes"] > FROZEN_SCRAPES)
        & found["always"]
        & (found["last"] - found["first"] >= FROZEN_MS)
    ]
    spoilt = pd.Series(False, index=wide.index)
    for (card, _), row in still.iterrows():
        spoilt |= (wide["UUID"] == card) & (wide["time"] > row["first"]) & (wide["time"] <= row["last"])
    return spoilt


def busy(wide: pd.DataFrame) -> pd.Series:
    """The engine's activity, else GPU_UTIL; the latter too where the former is 0 against it for an hour."""
    engine, util = wide[BUSY[0]], wide[BUSY[1]]
    against = (engine == 0) & (util > 0)
    run = (against != against.groupby(wide["UUID"], observed=True).shift()).cumsum()
    lasts = (wide["end"].groupby(run).max() - wide["time"].groupby(run).min()).reindex(run).to_numpy()
    return util.where(against & (lasts >= CONTRADICTION_MS), engine.fillna(util))


def roll_up(frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Usage per hour, card and namespace."""
    indexed = {key: once(frame) for key, frame in frames.items()}
    wide = pd.concat({key: frame["value"] for key, frame in indexed.items()}, axis=1).sort_index()
    owners = indexed[BUSY[1]][["exported_namespace", "exported_pod"]]
    wide = wide.join(owners).reset_index()
    wide["end"] = until(wide["time"], wide["UUID"])
    wide.loc[frozen(wide), [*BUSY, *RATIOS, MEMORY]] = np.nan
    wide["busy"] = busy(wide)

    held = wide[wide["exported_pod"].notna()]
    keys = ["UUID", "exported_namespace"]
    leases = held.groupby([*keys, "exported_pod"], observed=True).agg(start=("time", "min"), end=("end", "max"))
    parts = [by_hour(leases.reset_index()).groupby(["hour", *keys], observed=True)["ms"].sum().rename("held_ms")]
    seen = by_hour(held.rename(columns={"time": "start"}))
    for name in ("busy", *RATIOS):
        there = seen[seen[name].notna()]
        weighted = there.assign(ppb_ms=(there[name] * PPB).round().astype("int64") * there["ms"])
        sums = weighted.groupby(["hour", *keys], observed=True)[["ms", "ppb_ms"]].sum()
        parts.append(sums.rename(columns={"ms": f"{name}_observed_ms", "ppb_ms": f"{name}_ppb_ms"}))
    memory = (seen[MEMORY] * seen["ms"]).groupby([seen["hour"], *(seen[key] for key in keys)], observed=True).sum()
    parts.append(memory.rename("memory_byte_ms"))

    counter = wide[wide[ENERGY].notna()]
    card = counter.groupby("UUID", observed=True)
    increase, following = card[ENERGY].shift(-1) - counter[ENERGY], card["time"].shift(-1)
    joules = increase.where(increase >= 0, card[ENERGY].shift(-1))
    metered = counter.assign(start=counter["time"], end=following, joules=joules)
    metered = metered[following.notna() & metered["exported_pod"].notna()].astype({"end": "int64"})
    metered["watts"] = metered["joules"] / (metered["end"] - metered["start"]) * 1000
    drawn = by_hour(metered)
    drawn["energy_joules"] = drawn["watts"] * drawn["ms"] / 1000
    parts.append(drawn.groupby(["hour", *keys], observed=True)["energy_joules"].sum())
    return pd.concat(parts, axis=1).reset_index()


def read(arguments: dict[str, Any], start: datetime, end: datetime) -> tuple[dict[str, pd.DataFrame], dict[str, int]]:
    """Every metric, valid values only, and how many weren't."""
    client = PrometheusConnect(url=arguments["url"])
    frames: dict[str, pd.DataFrame] = {}
    invalid: dict[str, int] = {}
    powered = pd.MultiIndex.from_arrays([[], []])
    names = sorted(arguments["metrics"], key=lambda name: arguments["metrics"][name]["key"] != POWER)
    for name in names:
        metric = arguments["metrics"][name]
        frame, invalid[metric["key"]] = valid(fetch(client, name, start, end), metric, powered)
        if metric["key"] == POWER:
            powered = pd.MultiIndex.from_frame(frame.loc[frame["value"] > 0, ["UUID", "time"]])
        frames[metric["key"]] = frame
    return frames, invalid


def store_usage(arguments: dict[str, Any], start: datetime, end: datetime, target: Path) -> None:
    """From the first request to the usage in a table, committed."""
    frames, invalid = read(arguments, start, end)
    usage = roll_up(frames)  # noqa: F841 - DuckDB finds it by its name
    found = pd.DataFrame(invalid.items(), columns=["metric", "count"])  # noqa: F841
    with duckdb.connect(str(target)) as connection:
        connection.execute("CREATE TABLE usage AS SELECT * REPLACE (UUID::VARCHAR AS UUID) FROM usage")
        connection.execute("CREATE TABLE invalid AS SELECT * FROM found")


def store_samples(arguments: dict[str, Any], start: datetime, end: datetime, target: Path) -> None:
    """From the first request to all samples in a table, committed."""
    client = PrometheusConnect(url=arguments["url"])
    with duckdb.connect(str(target)) as connection:
        connection.execute("BEGIN")
        for number, name in enumerate(arguments["metrics"]):
            frame = fetch(client, name, start, end).assign(metric=name)  # noqa: F841
            if number == 0:
                connection.execute("CREATE TABLE sample AS SELECT * FROM frame LIMIT 0")
            connection.execute("INSERT INTO sample BY NAME SELECT * FROM frame")
        connection.execute("COMMIT")


WORK = {"roll_up": store_usage, "store_samples": store_samples}


def main() -> int:
    arguments = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(arguments["folder"])
    start = datetime.fromisoformat(arguments["start"])
    work = WORK[arguments["work"]]
    work(arguments, start, start + timedelta(minutes=30), folder / "warm.duckdb")
    begun, cpu = time.perf_counter(), time.process_time()
    work(arguments, start, start + timedelta(days=1), folder / "run.duckdb")
    seconds, spent = time.perf_counter() - begun, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "cpu_seconds": spent, "peak_mb": peak}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
