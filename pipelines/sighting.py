"""Samples → what they show of the fleet: devices, leases from labels and stamped observations, group of cards by group.

What a card shows depends on its own samples alone, so a fleet of any size goes through in pieces that fit memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

import polars as pl

from pipelines.capacity import Split
from pipelines.config import Config
from pipelines.findings import summed
from pipelines.fleet import Fleet, lay_out, seen_fleet
from pipelines.leases import Lease, workload_name
from pipelines.observations import PPB, observe
from pipelines.owners import Bridging, NamedRun, leases_from_labels
from pipelines.quality import Scrapes, clean
from pipelines.rollup import Stamps
from pipelines.tables import Finding

_SPLIT_BY: Final = {"memory": ("memory", 1), "utilization": ("busy", PPB)}


@dataclass
class Sighted:
    """What all samples show.

    Attributes:
        leases: from labels.
        scheduled: where labels name workloads that a scheduler knows.
        shared: devices ever seen with two owners in one scrape.
        split: what was measured per owner of shared devices.
        stamps: observations, for the roll-up.
    """

    fleet: Fleet = field(default_factory=Fleet)
    leases: list[Lease] = field(default_factory=list)
    scheduled: list[NamedRun] = field(default_factory=list)
    shared: set[int] = field(default_factory=set)
    split: Split = field(default_factory=lambda: Split({}, {}))
    stamps: Stamps = field(default_factory=Stamps)
    findings: list[Finding] = field(default_factory=list)


def sight(pieces: Iterable[pl.DataFrame], config: Config, scheduled: pl.DataFrame) -> Sighted:
    """Return what the samples show.

    Args:
        pieces: wide samples; all of one card in one piece.
        scheduled: the schedulers' runs (``cluster``, ``labelled_as``, ``start``, ``end`` in ms).
    """
    interval = None if config.scrape_interval is None else round(config.scrape_interval.total_seconds() * 1000)
    bridging = Bridging(
        hole_ms=round(config.attribution.bridge.total_seconds() * 1000),
        flicker_ms=round(config.attribution.flicker.total_seconds() * 1000),
    )
    result = Sighted()
    findings: list[Finding] = []
    for samples in pieces:
        scrapes = clean(samples, exporter_pods=config.attribution.exporter_pods, interval_ms=interval)
        seen = observe(scrapes, interval)
        fleet = seen_fleet(scrapes, seen)
        labelled = leases_from_labels(scrapes, seen, scheduled, lay_out(fleet, seen), bridging)
        offset = result.fleet.absorb(fleet)
        result.leases += [replace(lease, dev=lease.dev + offset) for lease in labelled.leases]
        result.scheduled += [replace(run, dev=run.dev + offset) for run in labelled.scheduled]
        result.shared |= {dev + offset for dev in labelled.shared}
        result.stamps.add(offset, len(fleet.devices), seen.busy, seen.energy)
        if config.sharing.split != "even":
            _measure_owners(result.split, scrapes, offset, *_SPLIT_BY[config.sharing.split])
        findings += seen.findings
    result.findings = summed(findings)
    return result


def _measure_owners(split: Split, scrapes: Scrapes, offset: int, column: str, scale: int) -> None:
    """Add what was measured per owner of shared devices."""
    shared = scrapes.claims.group_by("dev", "t").len().filter(pl.col("len") > 1).select("dev").unique()
    rows = (
        scrapes.claims.join(shared, on="dev", how="semi")
        .filter(pl.col(column).is_not_null())
        .join(scrapes.owners, on="owner")
        .sort("dev", "t")
    )
    for row in rows.iter_rows(named=True):
        dev = row["dev"] + offset
        workload = workload_name(row["namespace"], row["pod"], row["job"])
        times, measured = split.values.setdefault((dev, workload, row["pod_uid"]), ([], []))
        value = round(row[column] * scale)
        if not measured or measured[-1] != value:
            times.append(row["t"])
            measured.append(value)
            split.edges.setdefault(dev, []).append(row["t"])
