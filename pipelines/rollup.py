"""Parts of devices × what was observed → usage, cut at every edge of the grid."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from pipelines.capacity import Part
from pipelines.fleet import Fleet
from pipelines.instants import HOUR_MS
from pipelines.leases import Lease
from pipelines.observations import RATIOS
from pipelines.overlap import Overlap
from pipelines.series import DEVICE_KEY

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

USAGE: Final[dict[str, pl.DataType]] = {
    "cluster": pl.String(),
    "node": pl.String(),
    "device": pl.String(),
    "instance": pl.String(),
    "profile": pl.String(),
    "model": pl.String(),
    "owner": pl.String(),  # tenant of a dedicated device
    "state": pl.String(),  # down | allocated | stranded | idle | unobserved
    "lease": pl.String(),  # id, where allocated
    "start": pl.Int64(),  # ms
    "end": pl.Int64(),
    "weight_num": pl.Int64(),  # part of the card, an exact fraction
    "weight_den": pl.Int64(),
    **{f"{name}_observed_ms": pl.Int64() for name in RATIOS},
    **{f"{name}_ppb_ms": pl.Int64() for name in RATIOS},  # sum of billionths × ms
    "memory_byte_ms": pl.Float64(),
    "energy_joules": pl.Float64(),  # this part's; null: not measured
}
"""One row per UTC hour (cut further at every edge), device, state and lease."""

ROWS_IN_MEMORY: Final = 12_000_000
Instances = Mapping[int, Sequence[int]]
"""The devices that cards are cut into, by the card's ``dev``."""

_NOTHING: Final = (
    pl.DataFrame(
        schema={
            "dev": pl.Int32,
            "start": pl.Int64,
            "end": pl.Int64,
            **dict.fromkeys(RATIOS, pl.Int64),
            "memory_used_bytes": pl.Float64,
        }
    ),
    pl.DataFrame(schema={"card": pl.Int32, "start": pl.Int64, "end": pl.Int64, "watts": pl.Float64}),
)


@dataclass(frozen=True)
class _Stamped:
    keys: pl.DataFrame  # ``dev``, DEVICE_KEY: whose stamps these are
    busy: pl.DataFrame | Path
    energy: pl.DataFrame | Path

    def read(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return both tables, from disk where they wait there."""
        busy, energy = (t if isinstance(t, pl.DataFrame) else pl.read_ipc(t) for t in (self.busy, self.energy))
        return busy, energy


@dataclass
class Stamps:
    """Stamped observations of groups of cards; large fleets wait on disk. A card's newest group counts."""

    groups: list[_Stamped] = field(default_factory=list)
    _folder: Path | None = None
    _others: Stamps | None = None  # keeps their folder
    _rows: int = 0

    def add(self, keys: pl.DataFrame, busy: pl.DataFrame, energy: pl.DataFrame) -> None:
        """Add a group's Observations.busy and .energy.

        Args:
            keys: ``dev`` as those number devices, and DEVICE_KEY.
        """
        self._rows += busy.height + energy.height
        if self._rows > ROWS_IN_MEMORY:
            self.groups.append(_Stamped(keys, self._parked(busy, "busy"), self._parked(energy, "energy")))
        else:
            self.groups.append(_Stamped(keys, busy, energy))

    def before(self, others: Stamps) -> None:
        """Take others in as older: of a card that is in both these count."""
        self.groups = [*others.groups, *self.groups]
        self._others = others

    def measured(self, spans: pl.DataFrame, numbers: pl.DataFrame, instances: Instances) -> pl.DataFrame:
        """Add to each span what was observed in it: RATIOS' sums, ``memory_byte_ms`` and ``span_joules``.

        Args:
            spans: ``dev``, ``start``, ``end``, ``weight``, sorted; disjoint within a device.
            numbers: ``dev``, ``card``, DEVICE_KEY of the devices.
        """
        return _measured(spans, numbers, instances, self)

    def _parked(self, rows: pl.DataFrame, name: str) -> Path:
        """Write a table to disk and return where."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="gpuledger-stamps-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        path = self._folder / f"{name}-{len(self.groups)}.arrow"
        rows.write_ipc(path, compression="lz4")
        return path


def roll_up(
    parts: Sequence[Part],
    leases: Sequence[Lease],
    lease_ids: Sequence[str],
    fleet: Fleet,
    stamps: Stamps,
    cuts: Sequence[int],
) -> pl.DataFrame:
    """Return the usage of `parts`.

    Args:
        cuts: times in ms at which usage is cut besides UTC hours: local midnights and the configuration's edges.
    """
    if not parts:
        return pl.DataFrame(schema=USAGE)
    rows = _cut(parts, cuts)
    shares = rows.sort("dev", "start", "end", "num", "den").group_by("dev", "start", "end", maintain_order=True)
    spans = shares.agg(weight=(pl.col("num") / pl.col("den")).sum())
    spans = stamps.measured(spans, _numbers(fleet), fleet.instances)
    guessed = [n for n, lease in enumerate(leases) if lease.guessed]
    counts = ~pl.col("lease").is_in(guessed) & (pl.col("state") == "allocated")
    sums = [f"{name}_{unit}" for name in RATIOS for unit in ("observed_ms", "ppb_ms")]
    rows = rows.join(spans, on=["dev", "start", "end"]).with_columns(
        *(pl.when(counts).then(c).otherwise(0).alias(c) for c in sums),
        pl.when(counts).then("memory_byte_ms").otherwise(0.0).alias("memory_byte_ms"),
        energy_joules=pl.col("span_joules") * (pl.col("num") / pl.col("den")) / pl.col("weight"),
    )
    return usage_order(_described(rows, fleet, lease_ids).select(pl.col(c).cast(t) for c, t in USAGE.items()))


def usage_order(usage: pl.DataFrame) -> pl.DataFrame:
    """Return usage (USAGE) in its one order: whatever sums it up in floats gets the same sum each time."""
    return usage.sort(*DEVICE_KEY[:-1], "start", "state", "lease", "profile", "weight_num", "weight_den", "end")


def _numbers(fleet: Fleet) -> pl.DataFrame:
    return pl.DataFrame(
        [(d.dev, d.card, d.cluster, d.device, d.instance, d.profile) for d in fleet.devices],
        schema={"dev": pl.Int32, "card": pl.Int32, **dict.fromkeys(DEVICE_KEY, pl.String)},
        orient="row",
    )


def _measured(spans: pl.DataFrame, numbers: pl.DataFrame, instances: Instances, stamps: Stamps) -> pl.DataFrame:
    """Add to each span what was observed in it, group of cards by group."""
    left = spans.join(numbers.select("dev", "card"), on="dev", maintain_order="left")
    measured = []
    for group in reversed(stamps.groups):
        known = group.keys.rename({"dev": "own"}).join(numbers, on=DEVICE_KEY, nulls_equal=True).sort("own")
        cards = set(known["card"])
        mine = pl.col("card").is_in(cards)
        own, left = left.filter(mine).drop("card"), left.filter(~mine)
        busy, energy = group.read()
        measured.append(
            _measured_by(own, instances, cards, _renumbered(busy, "dev", known), _renumbered(energy, "card", known))
        )
    measured.append(_measured_by(left.drop("card"), instances, set(), *_NOTHING))
    return pl.concat(measured)


def _renumbered(stamps: pl.DataFrame, column: str, known: pl.DataFrame) -> pl.DataFrame:
    """Number devices as the fleet does; what is of none of `known` is left out."""
    own = stamps[column].to_numpy()
    numbers = np.full(int(own.max(initial=-1)) + 1, -1, np.int32)
    inside = known.filter(pl.col("own") < len(numbers))
    numbers[inside["own"].to_numpy()] = inside["dev"].to_numpy()
    renumbered = stamps.with_columns(pl.Series(column, numbers[own], pl.Int32))
    return renumbered if (numbers >= 0).all() else renumbered.filter(pl.col(column) >= 0)


def _measured_by(
    spans: pl.DataFrame, instances: Instances, cards: Collection[int], busy: pl.DataFrame, energy: pl.DataFrame
) -> pl.DataFrame:
    joules = _energy(spans, instances, cards, busy, energy)
    return spans.hstack(_observed(spans, busy)).with_columns(pl.Series("span_joules", joules, pl.Float64))


def _cut(parts: Sequence[Part], cuts: Sequence[int]) -> pl.DataFrame:
    """Cut parts at UTC hours and at `cuts`."""
    start = np.array([p.start for p in parts], np.int64)
    end = np.array([p.end for p in parts], np.int64)
    lowest, highest = int(start.min()), int(end.max())
    hours = np.arange(lowest // HOUR_MS + 1, -(-highest // HOUR_MS), dtype=np.int64) * HOUR_MS
    grid = np.union1d(hours, np.array([c for c in cuts if lowest < c < highest], np.int64))
    first, last = np.searchsorted(grid, start, side="right"), np.searchsorted(grid, end, side="left")
    pieces = last - first + 1
    of = np.repeat(np.arange(len(parts)), pieces)
    nth = np.arange(len(of)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    padded = np.concatenate([grid, [highest]])
    left = np.where(nth == 0, start[of], padded[np.maximum(first[of] + nth - 1, 0)])
    right = np.where(nth == pieces[of] - 1, end[of], padded[np.minimum(first[of] + nth, len(grid))])
    return pl.DataFrame(
        {
            "dev": np.array([p.dev for p in parts], np.int32)[of],
            "lease": np.array([p.lease for p in parts], np.int64)[of],
            "num": np.array([p.weight.numerator for p in parts], np.int64)[of],
            "den": np.array([p.weight.denominator for p in parts], np.int64)[of],
            "start": left,
            "end": right,
        }
    ).with_columns(pl.Series("state", [p.state for p in parts]).gather(of).alias("state"))


def _observed(spans: pl.DataFrame, busy: pl.DataFrame) -> pl.DataFrame:
    overlap = Overlap(spans, busy)
    columns: dict[str, Floats] = {}
    for name in RATIOS:
        columns[f"{name}_observed_ms"] = overlap.lasting(busy[name])
        columns[f"{name}_ppb_ms"] = overlap.sum(busy[name])
    columns["memory_byte_ms"] = overlap.sum(busy["memory_used_bytes"])
    return pl.DataFrame(columns).with_columns(pl.exclude("memory_byte_ms").round().cast(pl.Int64))


def _energy(
    spans: pl.DataFrame, instances: Instances, cards: Collection[int], busy: pl.DataFrame, energy: pl.DataFrame
) -> Floats:
    """Return joules per span; NaN where the board's energy was not measured."""
    boards = energy.rename({"card": "dev"})
    overlap = Overlap(spans, boards)
    joules = overlap.sum(boards["watts"]) / 1000
    joules[~overlap.any()] = np.nan
    devs = spans["dev"].to_numpy()
    for card, parts in ((card, instances[card]) for card in instances if card in cards):
        mine = np.flatnonzero(np.isin(devs, [card, *parts]))
        board = energy.filter(pl.col("card") == card)
        if len(mine) and board.height:
            joules[mine] = _over_instances(spans[mine], card, parts, busy, board)
    return joules


def _over_instances(
    spans: pl.DataFrame, card: int, instances: Sequence[int], busy: pl.DataFrame, board: pl.DataFrame
) -> Floats:
    """Split a board's energy over its instances by weight × activity, by weight where an activity is unknown."""
    activity = busy.filter(pl.col("dev").is_in(instances) & pl.col("busy").is_not_null())
    edges = np.unique(np.concatenate([f[c].to_numpy() for f in (spans, activity, board) for c in ("start", "end")]))
    at, lasts = edges[:-1], np.diff(edges)
    seg = np.searchsorted(board["start"].to_numpy(), at, side="right") - 1
    metered = (seg >= 0) & (board["end"].to_numpy()[seg] > at)
    joules = np.where(metered, board["watts"].to_numpy()[seg], 0.0) * lasts / 1000
    weights, busies, rows = [], [], []
    for dev in [*instances, card]:
        own = spans.with_row_index("row").filter(pl.col("dev") == dev)
        row, weight = _at(own, "row", at, -1), _at(own, "weight", at, 0.0)
        rows.append(row.astype(np.int64))
        weights.append(weight)
        if dev == card:
            busies.append(np.zeros(len(at)))
        else:
            busies.append(_at(activity.filter(pl.col("dev") == dev).sort("start"), "busy", at, np.nan))
    weight, active, row = np.array(weights), np.array(busies), np.array(rows)
    laid_out = (row[:-1] >= 0).any(axis=0)
    weight[-1] = np.where(laid_out, 0.0, weight[-1])  # the stranded part draws nothing of its own
    by_activity = weight[:-1] * np.where(row[:-1] >= 0, active[:-1], 0.0)
    usable = laid_out & ~np.isnan(by_activity).any(axis=0) & (np.nansum(by_activity, axis=0) > 0)
    key = weight.copy()
    key[:-1] = np.where(usable, np.nan_to_num(by_activity), weight[:-1])
    total = key.sum(axis=0)
    part = np.divide(key, total, out=np.zeros_like(key), where=total > 0) * joules
    held = row >= 0
    sums = np.bincount(row[held], weights=part[held], minlength=spans.height)
    seen = np.bincount(row[held], weights=(np.broadcast_to(metered, row.shape)[held]), minlength=spans.height)
    return np.where(seen > 0, sums, np.nan)


def _at(segments: pl.DataFrame, column: str, at: Ints, missing: float) -> Floats:
    """Return the value of sorted disjoint segments at each time."""
    if not segments.height:
        return np.full(len(at), missing)
    index = np.searchsorted(segments["start"].to_numpy(), at, side="right") - 1
    inside = (index >= 0) & (segments["end"].to_numpy()[index] > at)
    return np.where(inside, segments[column].to_numpy().astype(np.float64)[index], missing)


def _described(rows: pl.DataFrame, fleet: Fleet, lease_ids: Sequence[str]) -> pl.DataFrame:
    devices = pl.DataFrame(
        [(d.dev, d.card, d.cluster, d.node, d.device, d.instance, d.profile, d.model) for d in fleet.devices],
        schema={
            "dev": pl.Int32,
            "card": pl.Int32,
            "cluster": pl.String,
            "node": pl.String,
            "device": pl.String,
            "instance": pl.String,
            "profile": pl.String,
            "model": pl.String,
        },
        orient="row",
    )
    ids = pl.DataFrame(
        {"lease": range(len(lease_ids)), "id": list(lease_ids)}, schema={"lease": pl.Int64, "id": pl.String}
    )
    described = rows.join(devices, on="dev").join(ids, on="lease", how="left").drop("lease").rename({"id": "lease"})
    owned = [(card, x.start, x.end, x.owner) for card, listed in fleet.listings.items() for x in listed if x.owner]
    described = described.with_columns(
        pl.col("energy_joules").fill_nan(None),
        owner=pl.lit(None, pl.String),
        weight_num=pl.col("num"),
        weight_den=pl.col("den"),
    )
    for card, start, end, owner in owned:
        inside = (pl.col("card") == card) & (pl.col("start") >= start) & (pl.col("start") < end)
        described = described.with_columns(owner=pl.when(inside).then(pl.lit(owner)).otherwise("owner"))
    return described
