"""Who held a device, from the labels on its samples.

Consecutive scrapes that name one set of owners are a run; leases are runs joined over the holes and flickers that
the configuration allows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from pipelines.fleet import Device
from pipelines.intervals import Interval
from pipelines.leases import Lease, workload_name
from pipelines.observations import Observations
from pipelines.quality import KEY_OFFSET, KEY_SHIFT, Scrapes
from pipelines.series import OWNER_KEY

SOMEBODY_ELSE: Final = -1  # a scheduler's workload: it ends a labelled lease as any other owner does
_NAMED: Final[dict[str, pl.DataType]] = {
    "dev": pl.Int32(),
    "labelled_as": pl.String(),
    "record_start": pl.Int64(),
    "first": pl.Int64(),
    "last": pl.Int64(),
}


@dataclass(frozen=True)
class Bridging:
    """How long a lease goes on without being named, in ms."""

    hole_ms: int
    flicker_ms: int


@dataclass(frozen=True)
class NamedRun:
    """A device labelled, from its first such scrape to its last, with a workload that a scheduler knows."""

    dev: int
    labelled_as: str
    first: int
    last: int


@dataclass(frozen=True)
class _Run:
    dev: int
    first: int
    end: int
    node: str | None
    owners: dict[int, int]  # owner → slices


@dataclass
class _Open:
    owner: int
    start: int
    end: int
    node: str | None
    slices: list[tuple[int, int]]
    unnamed_ms: int = 0  # longest unbroken run of scrapes since that don't name it
    run_ms: int = 0  # the run of them that still goes on
    hole_ms: int = 0  # longest hole since


def runs_from_labels(
    scrapes: Scrapes, seen: Observations, scheduled: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return who labels name on each device, run by run, and where they name workloads that a scheduler knows better.

    Args:
        scheduled: the schedulers' runs: ``cluster`` (null: any), ``labelled_as``, ``start``, ``end`` (ms).

    Returns:
        ``dev``, ``first``, ``end``, ``node``, ``named`` (JSON: of each owner OWNER_KEY and its slices), and ``dev``,
        ``labelled_as``, ``record_start``, ``first``, ``last``.
    """
    claims, named = _split_scheduled(scrapes, scheduled)
    runs = _runs(seen.timeline, claims)
    keys = scrapes.owners.select(OWNER_KEY).rows()
    texts = {text: _spelt(text, keys) for text in runs["named"].unique()}
    return runs.with_columns(pl.col("named").replace_strict(texts, return_dtype=pl.String)), named


def _spelt(named: str, keys: Sequence[tuple[str | None, ...]]) -> str:
    pairs = (pair.split(":") for pair in named.split(" ") if pair)
    nobody = (None,) * len(OWNER_KEY)
    return json.dumps([[*(nobody if int(o) == SOMEBODY_ELSE else keys[int(o)]), int(slices)] for o, slices in pairs])


def leases_from_runs(
    runs: pl.DataFrame, devices: Sequence[Device], layouts: Mapping[int, list[Interval]], bridging: Bridging
) -> tuple[list[Lease], set[int]]:
    """Return the leases that runs show, and the devices ever seen with two owners.

    Args:
        runs: as `runs_from_labels` returns them, all of each device.
        layouts: where a card's layout has a MIG instance; what comes after a new layout is another instance.
    """
    named, owners = _numbered(runs["named"].unique())
    leases: list[Lease] = []
    shared: set[int] = set()
    ordered = runs.sort("dev", "first").select("dev", "first", "end", "node", "named").iter_rows()
    every = (_Run(dev, first, end, node, named[text]) for dev, first, end, node, text in ordered)
    for dev, grouped in groupby(every, key=lambda run: run.dev):
        of_device = list(grouped)
        if any(len(run.owners) > 1 for run in of_device):
            shared.add(dev)
        for held in _held(of_device, layouts.get(dev), owners, bridging, shared=dev in shared):
            owner = owners[held.owner]
            leases.append(
                Lease(
                    dev=dev,
                    start=held.start,
                    end=held.end,
                    kind="job" if owner["job"] is not None else "pod",
                    cluster=devices[dev].cluster or "default",
                    workload=workload_name(owner["namespace"], owner["pod"], owner["job"]),
                    node=held.node,
                    namespace=owner["namespace"],
                    pod=owner["pod"],
                    pod_uid=owner["pod_uid"],
                    slices=held.slices,
                )
            )
    return leases, shared


def _numbered(texts: pl.Series) -> tuple[dict[str, dict[int, int]], list[dict[str, str | None]]]:
    """Number the owners that runs name, in their order: of each text, slices by owner, and the owners."""
    spelt = {text: json.loads(text) for text in texts}
    rows = sorted({tuple(key) for pairs in spelt.values() for *key, _ in pairs if any(key)}, key=str)
    owners = pl.DataFrame(rows, schema=dict.fromkeys(OWNER_KEY, pl.String), orient="row").sort(OWNER_KEY).to_dicts()
    number = {tuple(owner.values()): n for n, owner in enumerate(owners)}
    return {
        text: {number.get(tuple(key), SOMEBODY_ELSE): slices for *key, slices in pairs} for text, pairs in spelt.items()
    }, owners


def _held(
    runs: list[_Run],
    layout: list[Interval] | None,
    owners: list[dict[str, str | None]],
    bridging: Bridging,
    *,
    shared: bool,
) -> Iterator[_Open]:
    if layout is None:
        yield from _join_runs(runs, owners, bridging, shared=shared)
        return
    for start, end in layout:
        inside = [run for run in runs if start <= run.first < end]
        if inside:
            for held in _join_runs(inside, owners, bridging, shared=shared):
                held.end = min(held.end, end)
                yield held


def _split_scheduled(scrapes: Scrapes, scheduled: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Take the claims of scheduled workloads out: inside a run they show a device, outside they name nobody."""
    owners = scrapes.owners.with_columns(
        labelled_as=pl.when(pl.col("job").is_not_null())
        .then(pl.col("job"))
        .otherwise(pl.concat_str(pl.col("namespace") + "/", "pod", ignore_nulls=True))
    )
    names = scheduled["labelled_as"].unique().to_list() if scheduled.height else []
    known = owners.filter(pl.col("labelled_as").is_in(names)).select("owner", "labelled_as")
    if not known.height:
        return scrapes.claims, pl.DataFrame(schema=_NAMED)
    cluster = scrapes.devices.select("dev", device_cluster="cluster")
    mine = scrapes.claims.join(known, on="owner").join(cluster, on="dev")
    inside = mine.join(scheduled.select("cluster", "labelled_as", "start", "end"), on="labelled_as").filter(
        pl.col("cluster").is_null() | (pl.col("cluster") == pl.col("device_cluster"))
    )
    elsewhere = inside.select("dev", "owner").unique()  # only a workload known in this device's cluster is scheduled
    claims = scrapes.claims.join(elsewhere, on=["dev", "owner"], how="anti")
    inside = inside.filter((pl.col("t") >= pl.col("start")) & (pl.col("t") < pl.col("end")))
    runs = inside.group_by("dev", "labelled_as", record_start="start").agg(
        first=pl.col("t").min(), last=pl.col("t").max()
    )
    marks = (
        inside.select("dev", "t")
        .unique()
        .select(
            "dev",
            "t",
            owner=pl.lit(SOMEBODY_ELSE, pl.Int32),
            slices=pl.lit(1, claims.schema["slices"]),
            memory=pl.lit(None, pl.Float64),
            busy=pl.lit(None, pl.Float64),
        )
    )
    return pl.concat([claims, marks.select(claims.columns)]).sort("dev", "t", "owner"), runs.select(list(_NAMED))


def _runs(timeline: pl.DataFrame, claims: pl.DataFrame) -> pl.DataFrame:
    """Return runs of scrapes of one device without a hole that name the same owners on the same node.

    Args:
        timeline, claims: sorted by ``dev`` and ``t``.
    """
    named, texts = _names(timeline, claims)
    other = (pl.col("dev") != pl.col("dev").shift(1)) | pl.col("node").ne_missing(pl.col("node").shift(1))
    hole = pl.col("t") > pl.col("reach").shift(1)
    breaks = timeline.select((other | hole).fill_null(value=True)).to_series().to_numpy().copy()
    breaks[1:] |= named[1:] != named[:-1]
    firsts = np.flatnonzero(breaks)
    lasts = np.append(firsts[1:], timeline.height)[: len(firsts)] - 1
    return timeline[firsts].select(
        "dev",
        pl.col("t").alias("first"),
        timeline["reach"].gather(lasts).alias("end"),
        "node",
        texts.gather(named[firsts]).alias("named"),
    )


def _names(timeline: pl.DataFrame, claims: pl.DataFrame) -> tuple[npt.NDArray[np.int64], pl.Series]:
    """Number the sets of owners that scrapes name: the number at each row of the timeline, and the sets as text."""
    keys = claims.select("dev", "t", code=pl.col("owner").cast(pl.Int64) * (1 << 32) + pl.col("slices"))
    several = keys.select((pl.col("dev") == pl.col("dev").shift(1)) & (pl.col("t") == pl.col("t").shift(1)))
    spelt = pl.concat_str("owner", "slices", separator=":")
    if several.to_series().any():
        sets = claims.group_by("dev", "t", maintain_order=True).agg(text=spelt.str.join(" "))
        texts = sets["text"].unique(maintain_order=True)
        number = sets["text"].replace_strict(texts, pl.int_range(1, len(texts) + 1, eager=True), return_dtype=pl.Int64)
    else:
        sets = keys
        distinct = claims.select("owner", "slices", code=keys["code"]).unique("code", maintain_order=True)
        texts = distinct.select(spelt).to_series()
        order = distinct["code"].arg_sort()
        at = distinct["code"].gather(order).search_sorted(keys["code"])
        number = order.gather(at).cast(pl.Int64) + 1
    named = np.zeros(timeline.height, np.int64)
    named[np.searchsorted(_scrape(timeline), _scrape(sets))] = number.to_numpy()
    return named, pl.concat([pl.Series([""], dtype=pl.String), texts.cast(pl.String)])


def _scrape(rows: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Return a device's number and a time as one integer that sorts like both."""
    keys: npt.NDArray[np.int64] = (
        (rows["dev"].to_numpy().astype(np.int64) << KEY_SHIFT) + rows["t"].to_numpy() + KEY_OFFSET
    )
    return keys


def _join_runs(
    runs: list[_Run], owners: list[dict[str, str | None]], bridging: Bridging, *, shared: bool
) -> list[_Open]:
    """Join the runs of one device into holds, in order of their starts."""
    holding: dict[int, _Open] = {}
    ended: list[_Open] = []
    previous_end = runs[0].first
    for run in runs:
        hole = max(run.first - previous_end, 0)
        previous_end = run.end
        for held in holding.values():
            held.hole_ms = max(held.hole_ms, hole)
            held.run_ms = 0 if hole else held.run_ms
        for owner, slices in run.owners.items():
            if owner == SOMEBODY_ELSE:
                continue
            held_by = holding.get(owner)
            if held_by is None or not _goes_on(held_by, owners[owner], bridging):
                if held_by is not None:
                    ended.append(held_by)
                holding[owner] = _Open(owner, run.first, run.end, run.node, [(run.first, slices)])
                continue
            held_by.end, held_by.unnamed_ms, held_by.run_ms, held_by.hole_ms = run.end, 0, 0, 0
            if held_by.slices[-1][1] != slices:
                held_by.slices.append((run.first, slices))
        for owner in [o for o in holding if o not in run.owners]:
            if run.owners and not shared:
                held = holding.pop(owner)
                held.end = min(held.end, run.first)
                ended.append(held)
            else:
                held = holding[owner]
                held.run_ms += run.end - run.first
                held.unnamed_ms = max(held.unnamed_ms, held.run_ms)
    ended.extend(holding.values())
    return sorted(ended, key=lambda held: (held.start, held.owner))


def _goes_on(held: _Open, owner: dict[str, str | None], bridging: Bridging) -> bool:
    by_identity = owner["job"] is not None or owner["pod_uid"] is not None
    return held.unnamed_ms <= bridging.flicker_ms and (by_identity or held.hole_ms <= bridging.hole_ms)
