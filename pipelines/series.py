"""Label sets → numbers: each series of the samples, the device that it is of and the owner that it names.

Everything that looks at labels happens here, on one row per label set; the samples themselves carry numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from pipelines.selectors import glob_matches
from pipelines.tables import SAMPLE_LABELS

Ints = npt.NDArray[np.int64]

DEVICE_KEY: Final = ["cluster", "device", "instance", "profile"]
OWNER_KEY: Final = ["namespace", "pod", "pod_uid", "job"]
STREAM_KEY: Final = ["replica", "scrape_job", "node"]
_LABELS: Final = [c for c in SAMPLE_LABELS if c not in ("time", "index")]


def series_of(samples: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Return one row per label set (labels, ``first`` and ``last`` ms), and that row's number for each sample."""
    starts, lengths = runs_of(samples, _LABELS)
    times = samples["time"].dt.epoch("ms").to_numpy()
    spans = {"first": np.minimum, "last": np.maximum} if len(starts) else {}
    grouped = (
        samples.select(_LABELS)[starts]
        .with_row_index("run")
        .with_columns(pl.Series(name, extreme.reduceat(times, starts)) for name, extreme in spans.items())
        .with_columns(pl.lit(None, pl.Int64).alias(name) for name in ("first", "last") if name not in spans)
        .group_by(_LABELS, maintain_order=True)
        .agg("run", pl.col("first").min(), pl.col("last").max())
    )
    of_run = np.empty(len(starts), np.int64)
    if len(starts):
        runs = grouped["run"]
        of_run[runs.explode().to_numpy()] = np.repeat(np.arange(grouped.height), runs.list.len().to_numpy())
    # A profile label on the whole card makes no other device.
    series = grouped.drop("run").with_columns(profile=pl.when(pl.col("instance").is_not_null()).then("profile"))
    return series, pl.Series("series", np.repeat(of_run, lengths))


def runs_of(rows: pl.DataFrame, columns: Sequence[str]) -> tuple[Ints, Ints]:
    """Return where runs of consecutive rows that are equal in some columns begin, and how long they are.

    Samples come sorted by their labels, so there are few: comparing neighbours is many times faster than hashing all.
    """
    named = [c for c in columns if rows[c].null_count() < rows.height]
    others = (pl.col(c).ne_missing(pl.col(c).shift(1)) for c in named)
    none = pl.repeat(value=False, n=pl.len())  # as long as the rows, where no column is named
    changed = rows.select(pl.any_horizontal(none, *others)).to_series().to_numpy().copy()
    changed[:1] = True
    starts = np.flatnonzero(changed)
    return starts, np.diff(starts, append=rows.height)


def identify(series: pl.DataFrame, exporter_pods: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return devices, owners, and the series with ``dev``, ``card``, ``owner``, ``stream`` and codes of labels.

    A series' ``said_uid`` is the pod UID that it names itself.
    """
    devices = _devices(series)
    series = series.join(
        devices.select("dev", "card", *DEVICE_KEY), on=DEVICE_KEY, nulls_equal=True, how="left", maintain_order="left"
    )
    series, owners = _owners(series, exporter_pods)
    stream = pl.struct(pl.col(c).fill_null("") for c in STREAM_KEY)
    return (
        devices,
        owners,
        series.with_columns(
            stream=stream.rank("dense").cast(pl.Int32),
            node_rank=pl.col("node").rank("dense").cast(pl.Int32),
            slice_code=pl.col("slice").rank("dense").cast(pl.Int32),
            container_code=pl.col("container").rank("dense").cast(pl.Int32),
        ),
    )


def _devices(series: pl.DataFrame) -> pl.DataFrame:
    """Number each card and each instance; a card has a row even where only instances are sampled.

    ``own_model`` is the newest that series of the device itself name, ``any_model`` that any series of the card names.
    """
    modelled = series.sort("last", "model", nulls_last=False)
    newest = pl.col("model").drop_nulls().last()
    known = modelled.group_by(DEVICE_KEY).agg(own_model=newest)
    cards = (
        modelled.group_by("cluster", "device")
        .agg(own_model=pl.col("model").filter(pl.col("instance").is_null()).drop_nulls().last(), any_model=newest)
        .with_columns(pl.lit(None, pl.String).alias(c) for c in ("instance", "profile"))
    )
    instances = known.filter(pl.col("instance").is_not_null())
    devices = (
        pl.concat([cards, instances], how="diagonal")
        .select(*DEVICE_KEY, "own_model", "any_model")
        .sort(DEVICE_KEY, nulls_last=False)
        .with_row_index("dev")
        .with_columns(pl.col("dev").cast(pl.Int32))
    )
    card = devices.filter(pl.col("instance").is_null()).select("cluster", "device", card="dev")
    return devices.join(card, on=["cluster", "device"]).sort("dev")


def _owners(series: pl.DataFrame, exporter_pods: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Name the owner of each series: a Slurm job before a pod; an exporter's own pod owns nothing."""
    pods = series["pod"].unique().drop_nulls()
    exporters = [pod for pod in pods if any(glob_matches(pattern, pod) for pattern in exporter_pods)]
    counts = pl.col("pod").is_not_null() & pl.col("job").is_null() & ~pl.col("pod").is_in(exporters)
    series = series.with_columns(pl.when(counts).then(c).alias(c) for c in ("namespace", "pod", "pod_uid"))
    series = series.with_columns(said_uid="pod_uid")
    # A pod that some of its samples name by UID and some by name alone is one pod, where there is one UID.
    uids = (
        series.filter(pl.col("pod_uid").is_not_null())
        .group_by("dev", "namespace", "pod")
        .agg(only_uid=pl.col("pod_uid").unique())
        .filter(pl.col("only_uid").list.len() == 1)
        .with_columns(pl.col("only_uid").list.first())
    )
    series = (
        series.join(uids, on=["dev", "namespace", "pod"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(pod_uid=pl.coalesce("pod_uid", "only_uid"))
        .drop("only_uid")
    )
    owners = (
        series.filter(pl.col("pod").is_not_null() | pl.col("job").is_not_null())
        .select(OWNER_KEY)
        .unique()
        .sort(OWNER_KEY)
        .with_row_index("owner")
        .with_columns(pl.col("owner").cast(pl.Int32))
    )
    return series.join(owners, on=OWNER_KEY, how="left", nulls_equal=True, maintain_order="left"), owners
