"""The simulated fleet as exporters would have exposed it, as OpenMetrics text: our names, or dcgm-exporter's."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Final
from zoneinfo import ZoneInfo

import polars as pl

from exporter.catalog import BY_KEY, Metric
from pipelines.simulate.signals import METRICS
from pipelines.simulate.terms import TIMEZONE

BLANK: Final = 9223372036854775794
"""What dcgm-exporter shows where DCGM has no value."""
_UNIT: Final = ("device", "instance", "profile", "node", "index", "model")


def write_ours(folder: Path, out: Path) -> int:
    """Write what our exporter would have shown of a replay directory; returns the number of samples."""
    samples = _read(folder)
    with out.open("w", encoding="utf-8") as file:
        count = sum(_our_metric(file, samples, BY_KEY[key]) for key in METRICS)
        count += _ownership(file, samples, _accounts(folder))
        count += _states(file, samples)
        file.write("# EOF\n")
    return count


def write_dcgm(folder: Path, out: Path) -> int:
    """Write what dcgm-exporter would have shown: old names on every other node, DCGM 4.6's on the rest."""
    samples = _read(folder)
    nodes = sorted(samples["node"].unique())
    with out.open("w", encoding="utf-8") as file:
        count = 0
        for key in METRICS:
            metric = BY_KEY[key]
            for place, name in enumerate((metric.dcgm[0], metric.dcgm[-1])):
                part = samples.filter(pl.col("node").is_in(nodes[place::2]))
                count += _dcgm_metric(file, part, metric, name.name, name.scale, host=("Hostname", "hostname")[place])
        count += _lines(file, "up", _up(samples, "dcgm-exporter"))
        file.write("# EOF\n")
    return count


def _read(folder: Path) -> pl.DataFrame:
    samples = pl.read_parquet(folder / "samples.parquet")
    return samples.with_columns(seconds=pl.col("time").dt.epoch("ms") / 1000)


def _our_metric(file: IO[str], samples: pl.DataFrame, metric: Metric) -> int:
    valid = samples.filter(pl.col(metric.key).is_between(metric.minimum, metric.maximum))
    # What only a board has is shown once for the card; a shared card's slices show the same value.
    unit = _UNIT if metric.scope == "instance" else ("device", "node", "index", "model")
    rows = valid.group_by(*unit, "cluster", "seconds").agg(value=pl.col(metric.key).max())
    return _lines(file, metric.name, _device_labels(rows))


def _device_labels(rows: pl.DataFrame) -> pl.DataFrame:
    named = {
        "cluster": pl.col("cluster"),
        "node": pl.col("node"),
        "gpu": pl.col("index"),
        "uuid": pl.col("device"),
        "model": pl.col("model"),
        "job": pl.lit("gpuledger-exporter"),
        "instance": pl.col("node") + ":9836",
    }
    parts = {"gpu_instance": "instance", "gpu_profile": "profile"}
    named |= {label: pl.col(column) for label, column in parts.items() if column in rows.columns}
    extra = [name for name in rows.columns if name.startswith("label_")]
    named |= {name.removeprefix("label_"): pl.col(name) for name in extra}
    return rows.select("seconds", "value", **{f"l_{name}": column for name, column in named.items()})


def _ownership(file: IO[str], samples: pl.DataFrame, accounts: pl.DataFrame) -> int:
    held = pl.concat([samples.filter(_is_pod()), _jobs(samples, accounts)], how="diagonal")
    unit = (*_UNIT, "cluster", "seconds")
    holders = held.with_columns(value=1.0 / pl.len().over("device", "instance", "seconds"))
    labels = {f"label_{name}": pl.col(name) for name in ("namespace", "pod", "account", "partition", "qos", "user")}
    rows = holders.select(*unit, "value", **labels, label_hpc_job="job", label_vgpu="slice")
    count = _lines(file, BY_KEY["owner_share_ratio"].name, _device_labels(rows))
    taken = holders.group_by("device", "instance", "seconds").agg(pl.col("value").sum().alias("taken"))
    units = samples.select(unit).unique()
    left = units.join(taken, on=["device", "instance", "seconds"], how="left", nulls_equal=True)
    free = left.select(*unit, value=1.0 - pl.col("taken").fill_null(0.0))
    return count + _lines(file, "gpuledger_unowned_share_ratio", _device_labels(free))


def _jobs(samples: pl.DataFrame, accounts: pl.DataFrame) -> pl.DataFrame:
    """Rows of the devices of jobs, from start to end: our exporter asks Slurm itself, the samples' labels lag."""
    devices = (
        samples.filter(pl.col("job").is_not_null()).group_by("job", "device").agg(pl.col("seconds").min().alias("seen"))
    )
    spans = devices.join(accounts, on="job").with_columns(
        # A local time that the clock showed twice is the earlier one, unless that is an hour before the first sample.
        start=pl.col("start") + pl.when(pl.col("seen") - pl.col("start") >= 3600).then(3600).otherwise(0)
    )
    rows = samples.drop("job").join(spans, on="device")
    return rows.filter(
        (pl.col("seconds") >= pl.col("start")) & (pl.col("seconds") < pl.col("start") + pl.col("elapsed"))
    ).drop("start", "elapsed", "seen")


def _is_pod() -> pl.Expr:
    exporter = pl.col("pod").fill_null("").str.contains("dcgm-exporter")
    return pl.col("pod").is_not_null() & ~exporter


def _is_holder() -> pl.Expr:
    return _is_pod() | pl.col("job").is_not_null()


def _accounts(folder: Path) -> pl.DataFrame:
    """Who ran each job, when it began (Unix seconds) and how long it ran."""
    with (folder / "sacct.txt").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="|") if row["User"]]
    zone = ZoneInfo(TIMEZONE)
    return pl.DataFrame({
        "job": [row["JobID"] for row in rows],
        "account": [row["Account"] for row in rows],
        "partition": [row["Partition"] for row in rows],
        "qos": [row["QOS"] for row in rows],
        "user": [row["User"] for row in rows],
        "start": [datetime.fromisoformat(row["Start"]).replace(tzinfo=zone).timestamp() for row in rows],
        "elapsed": [int(row["ElapsedRaw"]) for row in rows],
    }).unique("job", keep="last", maintain_order=True)  # fmt: skip


def _states(file: IO[str], samples: pl.DataFrame) -> int:
    """What the exporter says of itself and of healthy cards."""
    cards = samples.select("device", "node", "index", "model", "cluster", "seconds").unique()
    count = 0
    for key, value in {
        "device_up": 1.0, "recovery_action": 0.0, "row_remap_pending": 0.0, "row_remap_failed": 0.0,
        "ecc_uncorrected_volatile_total": 0.0, "ecc_corrected_volatile_total": 3.0, "nvlink_recoveries_total": 0.0,
        "power_limit_enforced_watts": 700.0, "memory_temperature_maximum_celsius": 95.0, "sample_age_seconds": 3.0,
        "temperature_slowdown_celsius": 92.0, "sm_clock_maximum_hertz": 1.98e9, "pcie_replays_total": 1.0,
        "remapped_rows_uncorrected_total": 0.0, "remapped_rows_corrected_total": 1.0,
    }.items():  # fmt: skip
        count += _lines(file, f"gpuledger_{key}", _device_labels(cards.with_columns(value=pl.lit(value))))
    nodes = cards.group_by("node", "cluster", "seconds").agg(value=pl.col("device").n_unique().cast(pl.Float64))
    expected = nodes.with_columns(value=pl.col("value").max().over("node"))
    for name, rows in (
        ("devices_present", nodes),
        ("devices_expected", expected),
        ("backend_up", nodes.with_columns(value=pl.lit(1.0))),
        ("pass_duration_seconds", nodes.with_columns(value=pl.lit(0.012))),
        ("owner_unresolved_devices", nodes.with_columns(value=pl.lit(0.0))),
        ("rejected_samples_total", nodes.with_columns(value=pl.lit(2.0))),
        ("passes_total", nodes.with_columns(value=pl.col("seconds") / 15)),
    ):
        count += _lines(file, f"gpuledger_{name}", _node_labels(rows))
    adapters = nodes.with_columns(value=pl.lit(1.0))
    labels = _node_labels(adapters).with_columns(l_adapter=pl.lit("kubernetes"))
    count += _lines(file, "gpuledger_owner_adapter_up", labels)
    count += _lines(file, "up", _up(samples, "gpuledger-exporter"))
    times = samples.select("seconds").unique()
    told = [*_pipeline(times), *_capacity(samples)]
    return count + sum(_lines(file, name, rows) for name, rows in told)


def _pipeline(times: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    labels = {"l_job": pl.lit("gpuledger-pipeline"), "l_instance": pl.lit("ledger:9837")}
    every = times.with_columns(value=(pl.col("seconds") // 300) * 300, **labels)
    yield "gpuledger_pipeline_last_success_timestamp_seconds", every
    yield "gpuledger_pipeline_last_pass_duration_seconds", every.with_columns(value=pl.lit(4.2))
    yield "gpuledger_pipeline_watermark_lag_seconds", every.with_columns(value=pl.lit(310.0), l_source=pl.lit("prod"))
    for kind in ("samples", "records"):
        yield "gpuledger_pipeline_rows_total", every.with_columns(value=pl.col("seconds") * 4, l_kind=pl.lit(kind))
    stale = every.with_columns(value=pl.col("seconds") // 600, l_code=pl.lit("stale_series"))
    yield "gpuledger_pipeline_findings_total", stale
    for result in ("done", "failed"):
        value = pl.col("seconds") // 300 if result == "done" else pl.lit(0.0)
        yield "gpuledger_pipeline_passes_total", every.with_columns(value=value, l_result=pl.lit(result))


def _capacity(samples: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """What the pipeline knows of capacity: a card of each model in each state, a node in repair, a reservation."""
    labels = {"l_job": pl.lit("gpuledger-pipeline"), "l_instance": pl.lit("ledger:9837"), "value": pl.lit(1.0)}
    every = samples.select("seconds").unique().with_columns(**labels)
    models = every.join(samples.select(l_model=pl.col("model")).unique(), how="cross")
    for state in ("held", "free", "down", "stranded", "unknown"):
        yield "gpuledger_capacity_cards", models.with_columns(l_state=pl.lit(state))
    yield "gpuledger_capacity_whole_free_cards", models
    yield "gpuledger_capacity_largest_block_cards", models
    places = samples.select(l_cluster=pl.col("cluster"), l_node=pl.col("node")).unique().sort("l_cluster", "l_node")
    worst = places.unique("l_cluster", keep="first", maintain_order=True)
    yield "gpuledger_capacity_troubled_cards", every.join(worst, how="cross").with_columns(l_state=pl.lit("repair"))
    named = {"reservation": "r1", "source": "slurm", "tenant": "vision", "model": "H100"}
    promised = every.with_columns(**{f"l_{name}": pl.lit(text) for name, text in named.items()})
    for key in ("gpus", "start_timestamp_seconds", "end_timestamp_seconds", "fits"):
        yield f"gpuledger_capacity_reservation_{key}", promised


def _up(samples: pl.DataFrame, job: str) -> pl.DataFrame:
    nodes = samples.select("node", "cluster", "seconds").unique()
    return _node_labels(nodes.with_columns(value=pl.lit(1.0))).with_columns(l_job=pl.lit(job)).drop("l_node")


def _node_labels(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(
        "seconds", "value", l_cluster="cluster", l_node="node", l_job=pl.lit("gpuledger-exporter"),
        l_instance=pl.col("node") + ":9836",
    )  # fmt: skip


def _dcgm_metric(file: IO[str], samples: pl.DataFrame, metric: Metric, name: str, scale: float, *, host: str) -> int:
    measured = samples.filter(pl.col(metric.key).is_not_null() | pl.lit(metric.key == "memory_temperature_celsius"))
    exporter = ~_is_holder() & pl.col("pod").is_not_null()
    labels = {
        "l_gpu": pl.col("index"),
        "l_UUID": pl.col("device"),
        "l_device": "nvidia" + pl.col("index"),
        "l_modelName": pl.col("model"),
        f"l_{host}": pl.col("node"),
        "l_GPU_I_ID": pl.col("instance"),
        "l_GPU_I_PROFILE": pl.col("profile"),
        "l_exported_namespace": pl.when(~exporter).then(pl.col("namespace")),
        "l_exported_pod": pl.when(~exporter).then(pl.col("pod")),
        "l_pod": pl.when(pl.col("job").is_null()).then("dcgm-exporter-" + pl.col("node")),
        "l_hpc_job": pl.col("job"),
        "l_vgpu": pl.col("slice"),
        "l_cluster": pl.col("cluster"),
        "l_job": pl.lit("dcgm-exporter"),
        "l_instance": pl.col("node") + ":9400",
    }
    value = (pl.col(metric.key) / scale).fill_null(float(BLANK))
    return _lines(file, name, measured.select("seconds", value=value, **labels))


def _lines(file: IO[str], name: str, rows: pl.DataFrame) -> int:
    """One line per row: columns ``l_*`` are labels, null ones left out."""
    labels = [column for column in rows.columns if column.startswith("l_")]
    for column in labels:  # written as they are: no simulated label needs escaping
        assert not rows.filter(pl.col(column).cast(pl.String).str.contains(r'["\\\n]')).height
    plain = [
        pl.when(pl.col(column).is_not_null() & (pl.col(column) != "")).then(
            pl.lit(f'{column[2:]}="') + pl.col(column) + '"'
        )
        for column in labels
    ]
    inside = pl.concat_str(plain, separator=",", ignore_nulls=True) if plain else pl.lit("")
    text = rows.sort("seconds").select(
        line=pl.concat_str(
            pl.lit(name + "{"), inside, pl.lit("} "), pl.col("value").cast(pl.Float64).cast(pl.String), pl.lit(" "),
            pl.col("seconds").cast(pl.String),
        )
    )  # fmt: skip
    lines = text["line"].to_list()
    if lines:
        file.write("\n".join(lines) + "\n")
    return len(lines)
