"""What training loops say of themselves (`gpuledger.training`), among the samples of an exposition text."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from exporter.training_metrics import TRAINING_METRICS
from pipelines.facts import TRAINING
from pipelines.sources.tally import Tally
from pipelines.sources.wide import FOREIGN, Observations

if TYPE_CHECKING:
    from pipelines.sources.prometheus.answer import Answer

TRAININGS: Final = {metric.name: metric.key for metric in TRAINING_METRICS}
"""Keys of `TRAINING_METRICS` by exposed name."""
_OWN: Final = 1 << 30
"""Series from this number on are a training's; those of devices stay below."""
_LABELS: Final = {
    "run": ("run",),
    "rank": ("exported_rank", "rank"),
    "node": ("exported_node", "node"),
    "device": ("exported_uuid", "uuid"),
}
_HOUR: Final = "1h"

Who = tuple[str | None, ...]
"""The job and the values of `_LABELS`."""


class TextObservations(Observations):
    """Observations of a text that may hold both: device series as ever, and those of trainings apart from them."""

    def __init__(self, tally: Tally, cluster: str) -> None:
        super().__init__(tally, cluster)
        self._tally_of_jobs = tally
        self._cluster = cluster
        self._trainings: list[tuple[str, Who]] = []

    def known(self, name: str) -> bool:
        """Whether series of this name are to be read at all."""
        return name in TRAININGS or super().known(name)

    def series_of(self, name: str, labels: Mapping[str, str]) -> int:
        """The number of a series, ``FOREIGN`` or ``NO_DEVICE``."""
        key = TRAININGS.get(name)
        if key is None:
            return super().series_of(name, labels)
        who = _who(labels, self._tally_of_jobs)
        if who is None:
            return FOREIGN
        self._trainings.append((key, who))
        return _OWN + len(self._trainings) - 1

    def take_trainings(self) -> pl.DataFrame:
        """Take the trainings' rows out and return them as ``facts.TRAINING``: each rank's last totals of each hour."""
        series = np.frombuffer(self.series, np.int32)
        own = np.flatnonzero(series >= _OWN)
        if not len(own):
            return pl.DataFrame(schema=TRAINING)
        which = (series[own] - _OWN).tolist()
        rows = _rows(
            np.frombuffer(self.times, np.int64)[own],
            np.frombuffer(self.values, np.float64)[own],
            [self._trainings[n] for n in which],
        )
        rest = np.flatnonzero(series < _OWN)
        del series  # an array can't go while a view of it lives
        self.times = array("q", np.array(self.times)[rest].tobytes())
        self.series = array("i", np.array(self.series)[rest].tobytes())
        self.values = array("d", np.array(self.values)[rest].tobytes())
        return progress(rows, self._cluster)


def training_facts(answers: Iterable[tuple[str, Answer]], cluster: str, tally: Tally) -> dict[str, pl.DataFrame]:
    """Return what a server's answers for metrics of `TRAININGS` say, as ``facts.TRAINING`` where they say anything."""
    tables = []
    for name, answer in answers:
        ends = np.cumsum(answer.counts)
        for labels, end, count in zip(answer.labels, ends, answer.counts, strict=True):
            who = _who(labels, tally)
            if who is not None:
                part = slice(int(end - count), int(end))
                tables.append(_rows(answer.times[part], answer.values[part], [(TRAININGS[name], who)] * int(count)))
    told = progress(pl.concat(tables), cluster) if tables else pl.DataFrame(schema=TRAINING)
    return {"training": told} if told.height else {}


def progress(rows: pl.DataFrame, cluster: str) -> pl.DataFrame:
    """Return ``facts.TRAINING`` of single values: each rank's last totals of each UTC hour.

    Args:
        rows: ``at`` (ms), ``key`` of `TRAINING_METRICS`, ``value``, ``labelled_as``, ``run``, ``rank``, ``node``,
            ``device``.
    """
    who = ["labelled_as", *_LABELS]
    valid = rows.filter(pl.col("value").is_finite() & (pl.col("value") >= 0))
    wide = valid.pivot(on="key", index=[*who, "at"], values="value", aggregate_function="max")
    keys = {metric.key for metric in TRAINING_METRICS}
    wide = wide.with_columns(pl.lit(None, pl.Float64).alias(key) for key in keys - set(wide.columns))
    # A process that has another start time is another one: its totals begin anew.
    process = [*who, "start_time_seconds"]
    last = (
        wide.sort("at")
        .with_columns(hour=pl.from_epoch("at", "ms").dt.truncate(_HOUR))
        .group_by(*process, "hour", maintain_order=True)
        .agg(pl.col("at").last(), *(pl.col(key).drop_nulls().last() for key in keys - {"start_time_seconds"}))
    )
    told = last.filter(pl.col("steps").is_not_null()).with_columns(
        cluster=pl.lit(cluster),
        rank=pl.col("rank").fill_null("0"),
        start=(pl.col("start_time_seconds") * 1000).round().cast(pl.Int64, strict=False).cast(pl.Datetime("ms", "UTC")),
        at=pl.from_epoch("at", "ms").dt.replace_time_zone("UTC"),
    )
    return told.select(pl.col(c).cast(t) for c, t in TRAINING.items()).sort("labelled_as", "rank", "at")


def _who(labels: Mapping[str, str], tally: Tally) -> Who | None:
    job = _job(labels)
    if job is None:
        tally.add("series of a training that names neither its job nor its pod")
        return None
    return (job, *(_first(labels, *names) for names in _LABELS.values()))


def _rows(times: npt.NDArray[np.int64], values: npt.NDArray[np.float64], series: list[tuple[str, Who]]) -> pl.DataFrame:
    """Return single values as `progress` takes them; `series` of each."""
    return pl.DataFrame(
        {
            "at": pl.Series(times, dtype=pl.Int64),
            "value": pl.Series(values, dtype=pl.Float64),
            "key": pl.Series([key for key, _ in series], dtype=pl.String),
            **{
                column: pl.Series([who[i] for _, who in series], dtype=pl.String)
                for i, column in enumerate(("labelled_as", *_LABELS))
            },
        }
    )


def _job(labels: Mapping[str, str]) -> str | None:
    """Return what labels on GPUs' samples call the job: Slurm's raw id, or namespace/pod."""
    job = _first(labels, "exported_hpc_job", "hpc_job")
    namespace = _first(labels, "exported_namespace", "namespace")
    pod = _first(labels, "exported_pod", "pod")
    return job or (f"{namespace}/{pod}" if namespace and pod else None)


def _first(labels: Mapping[str, str], *names: str) -> str | None:
    return next((labels[name] for name in names if labels.get(name)), None)
