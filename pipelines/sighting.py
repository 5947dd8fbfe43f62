"""What samples show of cards → the fleet, leases from labels and stamped observations.

What a card shows depends on its own samples alone, so a fleet of any size goes through in pieces that fit memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Protocol

import polars as pl

from pipelines.capacity import Split
from pipelines.config import Config
from pipelines.findings import over_cards, summed
from pipelines.fleet import Fleet, lay_out, seen_fleet
from pipelines.lake import Stored
from pipelines.leases import Lease, workload_name
from pipelines.observations import PPB
from pipelines.owners import Bridging, NamedRun, leases_from_runs
from pipelines.quality import Scrapes
from pipelines.rollup import Stamps
from pipelines.series import DEVICE_KEY
from pipelines.shown import CARD_KEY, TABLES, Reading, Shown, Tables, nothing, show
from pipelines.tables import Finding

AT_ONCE: Final = 2
"""Pieces under way: many steps of one leave a core idle, and the next piece is read meanwhile."""
_SPLIT_BY: Final = {"memory": ("memory", 1), "utilization": ("busy", PPB)}


@dataclass
class Sighted:
    """What all samples show.

    Attributes:
        leases: from labels.
        scheduled: where labels name workloads that a scheduler knows.
        shared: devices ever seen with two owners in one scrape.
        split: what was measured per owner of shared devices.
    """

    fleet: Fleet
    leases: list[Lease]
    scheduled: list[NamedRun]
    shared: set[int]
    split: Split
    findings: list[Finding]


@dataclass
class Sight:
    """What was looked at: shown.TABLES of all cards, observations of those whose samples were read now.

    Attributes:
        stamps: for the roll-up.
        measured: what was measured per owner of shared devices, where that splits them.
    """

    tables: Tables
    stamps: Stamps = field(default_factory=Stamps)
    measured: list[pl.DataFrame] = field(default_factory=list)


class Engine(Protocol):
    """Looks at all samples somewhere else than in this process."""

    def look(self, stored: Stored, config: Config, scheduled: pl.DataFrame) -> Sight:
        """Return what `look` does; its stamps may lie elsewhere as well."""


def reading_of(config: Config) -> Reading:
    """Return how the configuration has samples read."""
    interval = None if config.scrape_interval is None else round(config.scrape_interval.total_seconds() * 1000)
    return Reading(interval, tuple(config.attribution.exporter_pods))


def look(pieces: Iterable[pl.DataFrame], config: Config, scheduled: pl.DataFrame) -> Sight:
    """Look at all samples.

    Args:
        pieces: wide samples; all of one card in one piece.
        scheduled: the schedulers' runs (``cluster``, ``labelled_as``, ``start``, ``end`` in ms).
    """
    reading = reading_of(config)
    sight = Sight(nothing())
    tables: list[Tables] = []
    for shown in _shown(pieces, reading, scheduled):
        tables.append(shown.tables)
        sight.stamps.add(shown.scrapes.devices.select("dev", *DEVICE_KEY), shown.seen.busy, shown.seen.energy)
        if config.sharing.split in _SPLIT_BY:
            sight.measured.append(measured_owners(shown.scrapes, config.sharing.split))
    if tables:
        sight.tables = {name: pl.concat(t[name] for t in tables) for name in TABLES}
    return sight


def _shown(pieces: Iterable[pl.DataFrame], reading: Reading, scheduled: pl.DataFrame) -> Iterator[Shown]:
    """Yield what pieces show, in their order."""
    with ThreadPoolExecutor(AT_ONCE, "look") as pool:
        waiting: deque[Future[Shown]] = deque()
        try:
            for samples in pieces:
                waiting.append(pool.submit(show, samples, reading, scheduled))
                del samples
                if len(waiting) == AT_ONCE:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def sighted(sight: Sight, config: Config) -> Sighted:
    """Return what the looked-at samples say of the fleet."""
    bridging = Bridging(
        hole_ms=round(config.attribution.bridge.total_seconds() * 1000),
        flicker_ms=round(config.attribution.flicker.total_seconds() * 1000),
    )
    devices = numbered(sight.tables["shown_device"])
    keys = devices.select("dev", *DEVICE_KEY)

    def by_number(name: str) -> pl.DataFrame:
        return sight.tables[name].join(keys, on=DEVICE_KEY, nulls_equal=True, maintain_order="left")

    fleet = seen_fleet(devices, by_number("shown_presence"), by_number("shown_slices"))
    layouts = lay_out(fleet, by_number("shown_layout").join(devices.select("dev", "card"), on="dev"))
    leases, shared = leases_from_runs(by_number("shown_run"), fleet.devices, layouts, bridging)
    runs = by_number("shown_named").select("dev", "labelled_as", "first", "last").sort("dev", "first", "labelled_as")
    return Sighted(
        fleet=fleet,
        leases=leases,
        scheduled=[NamedRun(*row) for row in runs.iter_rows()],
        shared=shared,
        split=_split(sight.measured, keys),
        findings=summed(over_cards(sight.tables["shown_finding"])),
    )


def numbered(devices: pl.DataFrame) -> pl.DataFrame:
    """Number devices (DEVICE_KEY) as ``dev`` in the order of their keys, and add the ``card``'s number."""
    ordered = (
        devices.sort(DEVICE_KEY, nulls_last=False).with_row_index("dev").with_columns(pl.col("dev").cast(pl.Int32))
    )
    card = ordered.filter(pl.col("instance").is_null()).select(*CARD_KEY, card="dev")
    return ordered.join(card, on=CARD_KEY, nulls_equal=True, maintain_order="left")


def measured_owners(scrapes: Scrapes, split: str) -> pl.DataFrame:
    """Return what was measured per owner of shared devices: DEVICE_KEY, ``t``, OWNER_KEY and ``value``."""
    column, scale = _SPLIT_BY[split]
    shared = scrapes.claims.group_by("dev", "t").len().filter(pl.col("len") > 1).select("dev").unique()
    return (
        scrapes.claims.join(shared, on="dev", how="semi")
        .filter(pl.col(column).is_not_null())
        .join(scrapes.owners, on="owner")
        .join(scrapes.devices.select("dev", *DEVICE_KEY), on="dev")
        .sort("dev", "t", "owner")
        .with_columns(value=pl.col(column) * scale)
        .drop("dev", "owner")
    )


def _split(measured: Sequence[pl.DataFrame], keys: pl.DataFrame) -> Split:
    split = Split({}, {})
    for frame in measured:
        for row in frame.join(keys, on=DEVICE_KEY, nulls_equal=True, maintain_order="left").iter_rows(named=True):
            workload = workload_name(row["namespace"], row["pod"], row["job"])
            times, values = split.values.setdefault((row["dev"], workload, row["pod_uid"]), ([], []))
            value = round(row["value"])
            if not values or values[-1] != value:
                times.append(row["t"])
                values.append(value)
                split.edges.setdefault(row["dev"], []).append(row["t"])
    return split
