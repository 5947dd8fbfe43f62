"""The tidy tables → leases and usage: the stages before money, in order.

The same function serves a replay, an import and the daemon; it holds no state and reads no clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from pipelines.capacity import Part, Split, account, take_down
from pipelines.config import Config, Rate, Reservation
from pipelines.fleet import Fleet, exist, lay_out, seen_fleet
from pipelines.instants import from_ms, to_ms
from pipelines.intervals import Interval, intersect, union
from pipelines.leases import Lease, workload_name
from pipelines.observations import PPB, Observations, observe
from pipelines.owners import Bridging, leases_from_labels
from pipelines.periods import local_midnights
from pipelines.quality import Scrapes, clean
from pipelines.rollup import roll_up
from pipelines.schedulers import Demand, Placement, Record, fitted, named_leases, pushed_out, records_from
from pipelines.tables import Finding
from pipelines.tenancy import tenancy_edges

LEASE: Final[dict[str, pl.DataType]] = {
    "id": pl.String(),
    "cluster": pl.String(),
    "kind": pl.String(),  # pod | job (from labels), slurm | allocations (from a scheduler)
    "workload": pl.String(),
    "namespace": pl.String(),
    "pod": pl.String(),
    "pod_uid": pl.String(),
    "user": pl.String(),
    "tenant": pl.String(),  # where the source names it
    "class": pl.String(),  # where the source names it
    "slurm_account": pl.String(),
    "slurm_partition": pl.String(),
    "slurm_qos": pl.String(),
    "slurm_user": pl.String(),
    "node": pl.String(),
    "device": pl.String(),
    "instance": pl.String(),
    "model": pl.String(),
    "start": pl.Int64(),  # ms
    "end": pl.Int64(),
    "whole_start": pl.Int64(),  # of the run that it is a part of
    "guessed": pl.Boolean(),
}
"""One row per workload and device that it held."""

OUTAGE: Final[dict[str, pl.DataType]] = {
    "tenant": pl.String(),
    "model": pl.String(),
    "gpus": pl.String(),
    "start": pl.Int64(),
    "end": pl.Int64(),
}
"""GPUs that went down, as far as they exist; `tenant`: whose reservation that hits."""


@dataclass(frozen=True)
class Inputs:
    """What the sources yielded, merged: tables of `pipelines.tables`."""

    samples: pl.DataFrame
    records: pl.DataFrame
    accounting: pl.DataFrame
    inventory: pl.DataFrame


@dataclass(frozen=True)
class Metered:
    """Leases (LEASE), usage (rollup.USAGE), outages (OUTAGE), findings, and the span of the data in ms."""

    leases: pl.DataFrame
    usage: pl.DataFrame
    outages: pl.DataFrame
    findings: list[Finding]
    span: Interval | None


def interval_of(config: Config) -> int | None:
    """Return the configured scrape interval in ms."""
    return None if config.scrape_interval is None else round(config.scrape_interval.total_seconds() * 1000)


def meter(inputs: Inputs, config: Config, *, window: Interval | None = None) -> Metered:
    """Return who held what and how it was used.

    Args:
        window: what will be reported on, in ms: usage is cut at its edges, runs without an end are held to its end,
            and capacity without a known bound reaches to them; None: the span of the data.
    """
    interval = interval_of(config)
    scrapes = clean(inputs.samples, exporter_pods=config.attribution.exporter_pods, interval_ms=interval)
    seen = observe(scrapes, interval)
    findings = list(seen.findings)
    records_table = _in_ms(inputs.records, "start", "end")
    span = _span(seen, records_table)
    reach = window if span is None else span if window is None else (min(span[0], window[0]), max(span[1], window[1]))
    records = records_from(records_table, (window or span or (0, 0))[1])
    fleet = seen_fleet(scrapes, seen)
    leases, demands = _all_leases(inputs, config, scrapes, seen, records, fleet, reach or (0, 0), findings)
    outages = [r for r in records if r.given_class == "down"]
    down = _named_outages(outages, fleet, findings)
    placed = _placed(leases, demands, fleet, down, findings)
    parts = account(
        fleet,
        placed,
        down,
        _accounted(inputs.accounting),
        config.mig.weight,
        _split(config, scrapes),
        findings,
    )
    parts, fell = take_down(parts, fleet, [r for r in outages if r.device is None], findings)
    ids = [lease.identity(fleet.devices[lease.dev].key) for lease in placed]
    usage = roll_up(parts, placed, ids, fleet, seen.busy, seen.energy, [*(window or ()), *_edges(config, parts)])
    return Metered(
        leases=_lease_table(placed, ids, fleet),
        usage=usage,
        outages=_outage_table(outages, fell, fleet),
        findings=findings,
        span=span,
    )


def _all_leases(
    inputs: Inputs,
    config: Config,
    scrapes: Scrapes,
    seen: Observations,
    records: list[Record],
    fleet: Fleet,
    reach: Interval,
    findings: list[Finding],
) -> tuple[list[Lease], list[Demand]]:
    """Return the leases on known devices, and what is still to be placed; say what exists."""
    working = [r for r in records if r.given_class != "down"]
    scheduled = pl.DataFrame(
        [(r.cluster, r.labelled_as, r.start, r.end) for r in working],
        schema={"cluster": pl.String, "labelled_as": pl.String, "start": pl.Int64, "end": pl.Int64},
        orient="row",
    )
    bridging = Bridging(
        hole_ms=round(config.attribution.bridge.total_seconds() * 1000),
        flicker_ms=round(config.attribution.flicker.total_seconds() * 1000),
    )
    labelled = leases_from_labels(scrapes, seen, scheduled, lay_out(fleet, seen), bridging)
    named, demands = named_leases(working, labelled.scheduled, fleet, findings)
    exist(fleet, _in_ms(inputs.inventory, "from", "to"), named, reach, findings)
    held = pushed_out(labelled.leases, named, labelled.shared, findings)
    return [*held, *fitted(named, fleet, findings)], demands


def _placed(
    leases: list[Lease],
    demands: list[Demand],
    fleet: Fleet,
    down: dict[int, list[Interval]],
    findings: list[Finding],
) -> list[Lease]:
    placement = Placement(fleet, leases, down)
    placed = list(leases)
    for demand in demands:
        placed += placement.place(demand)
    if placement.unplaced:
        findings.append(Finding("conflicting_owner", placement.unplaced, "; ".join(placement.unplaced_details[:3])))
    return placed


def _in_ms(table: pl.DataFrame, *columns: str) -> pl.DataFrame:
    return table.with_columns(pl.col(c).dt.epoch("ms") for c in columns)


def _span(seen: Observations, records: pl.DataFrame) -> Interval | None:
    """Return the time from the first sample or scheduled run to the end of the last."""
    starts = [*seen.hulls["start"].to_list(), *records["start"].to_list()]
    ends = [*seen.hulls["end"].to_list(), *records.select(pl.coalesce("end", "start")).to_series().to_list()]
    return (min(starts), max(ends)) if starts else None


def _outage_table(outages: list[Record], fell: list[tuple[Record, Part]], fleet: Fleet) -> pl.DataFrame:
    rows = [(r.tenant, r.model, str(part.weight), part.start, part.end) for r, part in fell]
    for record in outages:
        cards = {d.card for d in fleet.devices if d.key == record.device}
        for card in sorted(cards):
            down = intersect(fleet.devices[card].exists, [(record.start, record.end)])
            rows += [(record.tenant, fleet.devices[card].model, "1", start, end) for start, end in down]
    return pl.DataFrame(sorted(rows, key=str), schema=OUTAGE, orient="row")


def _named_outages(outages: list[Record], fleet: Fleet, findings: list[Finding]) -> dict[int, list[Interval]]:
    by_name: dict[str, list[int]] = {}
    for device in fleet.devices:
        by_name.setdefault(device.key, []).append(device.card)
    down: dict[int, list[Interval]] = {}
    unknown = []
    for record in outages:
        if record.device is None:
            continue
        cards = set(by_name.get(record.device, ()))
        if not cards:
            unknown.append(record.device)
        for card in cards:
            down.setdefault(card, []).append((record.start, record.end))
    if unknown:
        findings.append(
            Finding("missing_device", len(unknown), f"down, never sampled nor listed: {', '.join(unknown[:3])}")
        )
    return {card: union(intervals) for card, intervals in down.items()}


def _accounted(accounting: pl.DataFrame) -> dict[tuple[str | None, str], list[Interval]]:
    spoken: dict[tuple[str | None, str], list[Interval]] = {}
    for cluster, node, start, end in _in_ms(accounting, "from", "to").iter_rows():
        for key in ((cluster, node), (None, node)):
            spoken.setdefault(key, []).append((start, end))
    return {key: union(intervals) for key, intervals in spoken.items()}


def _split(config: Config, scrapes: Scrapes) -> Split | None:
    """Return what was measured per owner of shared devices, where the configuration splits by it."""
    if config.sharing.split == "even":
        return None
    column, scale = ("memory", 1) if config.sharing.split == "memory" else ("busy", PPB)
    shared = scrapes.claims.group_by("dev", "t").len().filter(pl.col("len") > 1).select("dev").unique()
    rows = (
        scrapes.claims.join(shared, on="dev", how="semi")
        .filter(pl.col(column).is_not_null())
        .join(scrapes.owners, on="owner")
        .sort("dev", "t")
    )
    values: dict[tuple[int, str, str | None], tuple[list[int], list[int]]] = {}
    edges: dict[int, list[int]] = {}
    for row in rows.iter_rows(named=True):
        workload = workload_name(row["namespace"], row["pod"], row["job"])
        times, measured = values.setdefault((row["dev"], workload, row["pod_uid"]), ([], []))
        value = round(row[column] * scale)
        if not measured or measured[-1] != value:
            times.append(row["t"])
            measured.append(value)
            edges.setdefault(row["dev"], []).append(row["t"])
    return Split(values, edges)


def _edges(config: Config, parts: Sequence[Part]) -> list[int]:
    """Return local midnights and the configuration's own times within the data, in ms."""
    if not parts:
        return []
    first, last = min(p.start for p in parts), max(p.end for p in parts)
    edges = [*local_midnights(from_ms(first), from_ms(last), config.timezone), *tenancy_edges(config)]
    dated: list[Rate | Reservation] = [*config.rates, *config.reservations]
    edges += [t for entry in dated for t in (entry.from_, entry.to) if t is not None]
    return [to_ms(t) for t in edges]


def _lease_table(leases: list[Lease], ids: list[str], fleet: Fleet) -> pl.DataFrame:
    rows = []
    for lease, lease_id in zip(leases, ids, strict=True):
        device = fleet.devices[lease.dev]
        rows.append(
            (
                lease_id, lease.cluster, lease.kind, lease.workload, lease.namespace, lease.pod, lease.pod_uid,
                lease.user,
                lease.tenant, lease.given_class, lease.slurm_account, lease.slurm_partition, lease.slurm_qos,
                lease.slurm_user, lease.node or device.node, device.device, device.instance, device.model, lease.start,
                lease.end, lease.whole_start if lease.whole_start is not None else lease.start, lease.guessed,
            )
        )  # fmt: skip
    return pl.DataFrame(rows, schema=LEASE, orient="row").sort("start", "workload", "device", "instance", "id")
