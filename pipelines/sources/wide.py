"""Observations of single series, put together as the wide sample table.

Every source of samples goes through here: it names a series once, then appends (time, series, value) rows, and
asks for the table at the end.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Final

import polars as pl

from exporter.catalog import Metric, resolve
from pipelines.sources.identity import (
    GPU_INFO,
    INFO_SERIES,
    Identity,
    identify,
    is_other_entity,
    mig_profile,
    split_uuid,
)
from pipelines.sources.tally import Tally
from pipelines.tables import SAMPLE_LABELS, TIME

FOREIGN: Final = -1
"""A series that the catalogue doesn't know, or that is of no GPU."""
NO_DEVICE: Final = -2
"""A series of the catalogue whose labels name no device."""

# DCGM's blank values: no value, not found, not supported, no permission and their kin.
_INT32_BLANK: Final = (2147483632.0, 2147483647.0)
_FP64_BLANK: Final = 140737488355328.0
_INT64_BLANK: Final = 9.2e18


class Observations:
    """Rows of (time in ms, series, value as exposed), held in 20 bytes each.

    Args:
        tally: counts duplicates.
        cluster: the source's.
    """

    def __init__(self, tally: Tally, cluster: str) -> None:
        self.times = array("q")
        self.series = array("i")
        self.values = array("d")
        self._tally = tally
        self._cluster = cluster
        self._keys: dict[str, int] = {}
        self._identities: dict[Identity, int] = {}
        self._by_labels: dict[tuple[int, int, int], int] = {}
        self._known: list[tuple[int, int, float, bool, int]] = []  # metric, identity, scale, is DCGM's, rank of name
        self._models: dict[str, tuple[str | None, str | None]] = {}  # device → model, index
        self._profiles: dict[tuple[str, str], str] = {}  # device, instance → profile

    def known(self, name: str) -> bool:
        """Whether series of this name are to be read at all."""
        return name in INFO_SERIES or resolve(name) is not None

    def series_of(self, name: str, labels: Mapping[str, str]) -> int:
        """The number of a series, ``FOREIGN`` or ``NO_DEVICE``."""
        if name in INFO_SERIES:
            self._describe(name, labels)
            return FOREIGN
        resolved = resolve(name)
        if resolved is None or is_other_entity(labels):
            return FOREIGN
        identity = identify(labels, self._cluster)
        if identity is None:
            return NO_DEVICE
        metric, scale, origin = resolved
        key = self._keys.setdefault(metric.key, len(self._keys))
        which = self._identities.setdefault(identity, len(self._identities))
        rank = _rank(metric, name)
        number = self._by_labels.setdefault((key, which, rank), len(self._known))
        if number == len(self._known):
            self._known.append((key, which, scale, origin == "dcgm", rank))
        return number

    def append(self, time_ms: int, series: int, value: float) -> None:
        """Add one row; ``series`` is what ``series_of`` gave, and not negative."""
        self.times.append(time_ms)
        self.series.append(series)
        self.values.append(value)

    def table(self) -> pl.DataFrame:
        """The wide sample table, sorted by time, then in the order in which label sets were first seen."""
        if not self.times:
            return pl.DataFrame(schema=SAMPLE_LABELS)
        rows = self._one_value_each(self._rows())
        wide = rows.pivot(on="metric", index=["time", "identity"], values="value", maintain_order=False)
        keys = [key for key, number in self._keys.items() if str(number) in wide.columns]
        wide = wide.sort("time", "identity")
        labels = self._label_columns()
        picked = wide["identity"]
        return pl.DataFrame(
            [wide["time"].cast(TIME)]
            + [labels[column].gather(picked) for column in labels.columns]
            + [wide[str(self._keys[key])].alias(key) for key in keys]
        )

    def _rows(self) -> pl.DataFrame:
        """time, metric, identity, value in base units, rank: one row per observation; blanks are NaN."""
        known = pl.DataFrame(
            self._known,
            schema={
                "metric": pl.Int32,
                "identity": pl.Int32,
                "scale": pl.Float64,
                "dcgm": pl.Boolean,
                "rank": pl.Int16,
            },
            orient="row",
        )
        series = pl.Series(self.series, dtype=pl.Int32)
        raw = pl.col("raw")
        blank = (raw >= _INT64_BLANK) & raw.is_finite()
        dcgm_blank = (raw.is_between(*_INT32_BLANK) & (raw == raw.floor())) | raw.is_between(
            _FP64_BLANK, _FP64_BLANK + 3
        )
        return pl.DataFrame(
            [
                pl.Series("time", self.times, dtype=pl.Int64),
                pl.Series("raw", self.values, dtype=pl.Float64),
                *(known[column].gather(series) for column in known.columns),
            ]
        ).select(
            "time",
            "metric",
            "identity",
            "rank",
            value=pl.when(blank | (pl.col("dcgm") & dcgm_blank)).then(float("nan")).otherwise(raw * pl.col("scale")),
        )

    def _one_value_each(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Of several values at one time the smallest finite one; where two names give one metric, the first name's."""
        cell = ["metric", "identity", "time"]
        rows = rows.sort(cell)
        # Neighbours are compared, because hashing every cell takes ten times the memory of the rows.
        as_before = pl.all_horizontal(pl.col(column) == pl.col(column).shift() for column in cell)
        again = rows.select(as_before.fill_null(value=False)).to_series()
        repeated = again | again.shift(-1, fill_value=False)
        if not repeated.any():
            return rows
        doubtful = rows.filter(repeated)
        surplus = doubtful.height - doubtful.select(pl.struct(*cell, "rank").n_unique()).item()
        self._tally.add("more than one value of a series at one time; the smaller is kept", count=surplus,
                        code="duplicate_sample")  # fmt: skip
        settled = doubtful.sort(~pl.col("value").is_finite(), "rank", "value").unique(cell, keep="first")
        return pl.concat([rows.filter(~repeated), settled.select(rows.columns)])

    def _label_columns(self) -> pl.DataFrame:
        schema = {name: kind for name, kind in SAMPLE_LABELS.items() if name != "time"}
        described = []
        for identity in self._identities:
            model, index = self._models.get(identity.device, (None, None))
            profile = self._profiles.get((identity.device, identity.instance or ""))
            described.append(
                identity._replace(
                    model=identity.model or model,
                    gpu_index=identity.gpu_index or index,
                    profile=identity.profile or profile,
                )
            )
        return pl.DataFrame(described, schema=schema, orient="row")

    def _describe(self, name: str, labels: Mapping[str, str]) -> None:
        device, _ = split_uuid(labels.get("uuid"))
        if device is None:
            return
        if name == GPU_INFO:
            self._models[device] = (labels.get("name") or None, labels.get("index") or None)
        elif labels.get("gpu_instance_id") and labels.get("profile"):
            self._profiles[device, labels["gpu_instance_id"]] = mig_profile(labels["profile"])


def _rank(metric: Metric, name: str) -> int:
    """Where ``name`` stands among the names of its metric: the catalogue lists the better one first."""
    names = [metric.name, *(n.name for n in metric.dcgm), *(n.name for n in metric.smi)]
    return names.index(name)
