"""The tidy tables → leases and usage: the stages before money, in order.

The same function serves a replay, an import and the daemon; it holds no state and reads no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from pipelines.allocation import reused
from pipelines.analysis.tables import Analysis
from pipelines.capacity import Part, account, take_down
from pipelines.config import Config, Rate, Reservation
from pipelines.conservation import check_conservation
from pipelines.device_health import device_spells
from pipelines.evidence import with_summaries
from pipelines.existence import exist
from pipelines.facts import NOTHING, Facts
from pipelines.findings import summed
from pipelines.fleet import Fleet
from pipelines.fleet_state import fleet_state
from pipelines.health import device_states, spells
from pipelines.health import outages as health_outages
from pipelines.hierarchy import labels_above, with_hierarchy
from pipelines.holdings import held_runs
from pipelines.instants import from_ms, to_ms
from pipelines.intervals import Interval, intersect, union
from pipelines.lake import Stored
from pipelines.leases import Lease
from pipelines.listings import with_listings
from pipelines.looking import Look, Read, dirty_by_records, look_again
from pipelines.periods import local_midnights
from pipelines.placement import Placement
from pipelines.rerolling import changed_days, part_table, rolled_again, stamped_days, unstamped
from pipelines.rollup import Stamps, roll_up
from pipelines.schedulers import Demand, Record, fitted, named_leases, pushed_out, records_from
from pipelines.shown import CARD_KEY, Tables
from pipelines.sighting import Engine, Sight, look, sighted
from pipelines.tables import Finding
from pipelines.tenancy import tenancy_edges
from pipelines.uncollected import uncollected

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
    "slurm_account_tree": pl.String(),  # the account and all above it, a line each
    "namespace_label": pl.String(),  # key=value of its namespace, a line each
    "node": pl.String(),
    "device": pl.String(),
    "instance": pl.String(),
    "model": pl.String(),
    "start": pl.Int64(),  # ms
    "end": pl.Int64(),
    "whole_start": pl.Int64(),  # of the run that it is a part of
    "guessed": pl.Boolean(),
    "ended": pl.Boolean(),  # its scheduler says that it was over at `end`; else it may run on where the data end
}
"""One row per workload and device that it held."""

OUTAGE: Final[dict[str, pl.DataType]] = {
    "tenant": pl.String(),
    "model": pl.String(),
    "gpus": pl.String(),
    "start": pl.Int64(),
    "end": pl.Int64(),
    "device": pl.String(),  # the card
    "cause": pl.String(),  # down | repair
}
"""GPUs that went down, as far as they exist; `tenant`: whose reservation that hits."""

OUT: Final = ("down", "repair")
"""Classes of records that say what nobody could use."""


@dataclass(frozen=True)
class Inputs:
    """What the sources yielded, merged: tables of `pipelines.tables`; of `samples`, all of a card in one table.

    Attributes:
        some: yields the samples of some cards again, for who remembers the others.
        stored: where all samples lie, for an engine that reads them itself.
    """

    samples: Iterable[pl.DataFrame]
    records: pl.DataFrame
    accounting: pl.DataFrame
    inventory: pl.DataFrame
    facts: Facts = NOTHING
    some: Read | None = None
    stored: Stored | None = None


@dataclass(frozen=True)
class Memory:
    """What the last pass left, so that the next one looks only at what changed since.

    Attributes:
        shown: shown.TABLES.
        scheduled: the schedulers' runs that samples were read by: ``cluster``, ``labelled_as``, ``start``, ``end``.
        parts: rerolling.PART.
        usage: rollup.USAGE, as measured.
        dirty: looking.DIRTY: cards with samples that the last pass didn't know.
        pruned: before this time (ms) there are no samples any more.
    """

    shown: Tables
    scheduled: pl.DataFrame
    parts: pl.DataFrame
    usage: pl.DataFrame
    dirty: pl.DataFrame
    pruned: int


@dataclass(frozen=True)
class Remade:
    """What a pass leaves for the next: of Memory, and which days of cards (rerolling.CARD_DAY) it made anew; None: all.

    Attributes:
        cards: that were looked at again, ``cluster`` and ``device``; None: all.
    """

    shown: Tables
    scheduled: pl.DataFrame
    parts: pl.DataFrame
    usage: pl.DataFrame
    days: pl.DataFrame | None
    cards: pl.DataFrame | None


@dataclass(frozen=True)
class Metered:
    """Leases (LEASE), usage (rollup.USAGE), outages (OUTAGE), findings, the span of the data in ms, and why."""

    leases: pl.DataFrame
    usage: pl.DataFrame
    outages: pl.DataFrame
    findings: list[Finding]
    span: Interval | None
    analysis: Analysis = field(default_factory=Analysis)
    state: Mapping[str, pl.DataFrame] = field(default_factory=dict)  # fleet_state.TABLES


def meter(inputs: Inputs, config: Config, *, window: Interval | None = None, engine: Engine | None = None) -> Metered:
    """Return who held what and how it was used; `window` as in `meter_again`."""
    return meter_again(inputs, config, window=window, memory=None, engine=engine)[0]


@uncollected()
@reused()
def meter_again(
    inputs: Inputs,
    config: Config,
    *,
    window: Interval | None,
    memory: Memory | None,
    engine: Engine | None = None,
) -> tuple[Metered, Remade]:
    """Return who held what and how it was used, exactly as if all were made anew.

    Args:
        memory: what the last pass under this configuration left; None: everything is made anew.
        window: what will be reported on, in ms: usage is cut at its edges, runs without an end are held to its end,
            and capacity without a known bound reaches to them; None: the span of the data.
        engine: reads and measures all samples elsewhere, where all are to be read; None: here.
    """
    table = _in_ms(inputs.records, "start", "end")
    scheduled = _scheduled(table)
    looked = _look(inputs, config, scheduled, memory, engine)
    sight = looked.sight if isinstance(looked, Look) else looked
    seen = sighted(sight, config)
    fleet, findings = seen.fleet, seen.findings
    span = _span(fleet, table)
    reach = window if span is None else span if window is None else (min(span[0], window[0]), max(span[1], window[1]))
    records = records_from(table, (window or span or (0, 0))[1])
    working = [r for r in records if r.given_class not in OUT]
    outages = [r for r in records if r.given_class in OUT]
    runs = held_runs(seen.scheduled, inputs.facts["holding"], fleet)
    named, demands = named_leases(working, runs, fleet, findings)
    inventory = with_listings(inputs.inventory, inputs.facts["scheduler_node"])
    exist(fleet, _in_ms(inventory, "from", "to"), named, reach or (0, 0), findings)
    held = pushed_out(seen.leases, named, seen.shared, findings)
    told = device_spells(sight.tables["shown_trouble"], sight.tables["shown_device"])
    states = device_states([*spells(inputs.facts["condition"]), *told], fleet)
    above = labels_above(inputs.facts)
    outages += health_outages(states, fleet, [*held, *named], config, (reach or (0, 0))[1], above)
    down = _named_outages(outages, fleet, findings)
    leases = _placed([*held, *fitted(named, fleet, findings)], demands, fleet, down, findings)
    split = None if config.sharing.split == "even" else seen.split
    parts = account(fleet, leases, down, _accounted(inputs.accounting), config.mig.weight, split, findings)
    parts, fell = take_down(parts, fleet, [r for r in outages if r.device is None], findings)
    ids = [lease.identity(fleet.devices[lease.dev].key) for lease in leases]
    cuts = [*(window or ()), *_edges(config, parts)]
    made_of = part_table(parts, leases, ids, fleet)

    def roll(some: Sequence[Part], stamps: Stamps) -> pl.DataFrame:
        return roll_up(some, leases, ids, fleet, stamps, cuts)

    days, cards = None, None
    if memory is None or not isinstance(looked, Look) or inputs.some is None:
        usage = roll(parts, sight.stamps)
    else:
        stamped = stamped_days(made_of, memory.usage, looked.seams)
        changed = pl.concat([changed_days(memory.parts, made_of), stamped]).unique()
        days = changed.filter(pl.col("day") >= memory.pruned)  # of those before there is nothing to make them from
        missing = unstamped(days, looked)
        more = look_again(sight.tables, missing, inputs.some, config, scheduled, pruned=memory.pruned)
        stamps = more.sight.stamps
        stamps.before(sight.stamps)
        usage = rolled_again(memory.usage, days, parts, fleet, lambda some: roll(some, stamps))
        cards = looked.seams.select(CARD_KEY).unique()
    remade = Remade(sight.tables, scheduled, made_of, usage, days, cards)
    check_conservation(usage, fleet)
    table = with_hierarchy(_lease_table(leases, ids, fleet), inputs.facts)
    metered = Metered(
        leases=table,
        usage=with_summaries(usage, table, inputs.facts["summary"], findings),
        outages=_outage_table(outages, fell, fleet),
        findings=summed(findings),
        span=span,
        state=fleet_state(fleet, states, inputs.facts, inputs.records),
    )
    return metered, remade


def _look(
    inputs: Inputs, config: Config, scheduled: pl.DataFrame, memory: Memory | None, engine: Engine | None
) -> Look | Sight:
    if memory is None or inputs.some is None or config.sharing.split != "even":
        if engine is not None and inputs.stored is not None:
            return engine.look(inputs.stored, config, scheduled)
        return look(inputs.samples, config, scheduled)  # what owners of a shared device use is measured by the sample
    relabelled = dirty_by_records(memory.scheduled, scheduled, memory.shown)
    dirty = pl.concat([memory.dirty, relabelled]).group_by(CARD_KEY).agg(pl.col("changed").min())
    return look_again(memory.shown, dirty, inputs.some, config, scheduled, pruned=memory.pruned)


def _scheduled(table: pl.DataFrame) -> pl.DataFrame:
    """Return the runs of scheduled workloads: ``cluster``, ``labelled_as``, ``start``, ``end``; open ones end never."""
    return table.filter(~pl.col("class").is_in(OUT).fill_null(value=False)).select(
        "cluster", "labelled_as", "start", pl.col("end").fill_null(pl.lit(1 << 62))
    )


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
    findings += placement.findings
    return placed


def _in_ms(table: pl.DataFrame, *columns: str) -> pl.DataFrame:
    return table.with_columns(pl.col(c).dt.epoch("ms") for c in columns)


def _span(fleet: Fleet, records: pl.DataFrame) -> Interval | None:
    """Return the time from the first sample or scheduled run to the end of the last; None: nothing has an end."""
    starts = [*(start for start, _ in fleet.hulls.values()), *records["start"].to_list()]
    ends = [
        *(end for _, end in fleet.hulls.values()),
        *records.select(pl.coalesce("end", "start")).to_series().to_list(),
    ]
    return (min(starts), max(ends)) if starts and min(starts) < max(ends) else None


def _outage_table(outages: list[Record], fell: list[tuple[Record, Part]], fleet: Fleet) -> pl.DataFrame:
    rows = [
        (r.tenant, r.model, str(part.weight), part.start, part.end, fleet.devices[part.dev].device, r.given_class)
        for r, part in fell
    ]
    for record in outages:
        cards = {d.card for d in fleet.devices if d.key == record.device}
        for card in sorted(cards):
            down = intersect(fleet.devices[card].exists, [(record.start, record.end)])
            what = (fleet.devices[card].device, record.given_class)
            rows += [(record.tenant, fleet.devices[card].model, "1", start, end, *what) for start, end in down]
    return pl.DataFrame(sorted(rows, key=str), schema=OUTAGE, orient="row")


def _named_outages(outages: list[Record], fleet: Fleet, findings: list[Finding]) -> dict[int, list[Interval]]:
    by_name: dict[str, list[int]] = {}
    for device in fleet.devices:
        by_name.setdefault(device.key, []).append(device.card)
    down: dict[int, list[Interval]] = {}
    for record in outages:
        if record.device is None:
            continue
        cards = set(by_name.get(record.device, ()))
        if not cards:
            detail = "down, never sampled nor listed"
            findings.append(Finding("missing_device", 1, detail, record.device, record.start, record.end))
        for card in cards:
            down.setdefault(card, []).append((record.start, record.end))
    return {card: union(intervals) for card, intervals in down.items()}


def _accounted(accounting: pl.DataFrame) -> dict[tuple[str | None, str], list[Interval]]:
    """Return when accounting speaks for each node: whenever any file speaks for its cluster.

    A file that doesn't name a node says that no job held it. So it doesn't matter into how many files the accounting is
    cut, as long as they leave no time out.
    """
    spoken: dict[tuple[str | None, str], list[Interval]] = {}
    for _, of_cluster in _in_ms(accounting, "from", "to").group_by("cluster"):
        windows = union(of_cluster.select("from", "to").iter_rows())
        for cluster, node in of_cluster.select("cluster", "node").unique().iter_rows():
            for key in ((cluster, node), (None, node)):
                spoken.setdefault(key, []).extend(windows)
    return {key: union(intervals) for key, intervals in spoken.items()}


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
                lease.slurm_user, None, None, lease.node or device.node, device.device, device.instance, device.model,
                lease.start,
                lease.end, lease.whole_start if lease.whole_start is not None else lease.start, lease.guessed,
                lease.ended,
            )
        )  # fmt: skip
    table = pl.DataFrame(rows, schema=LEASE, orient="row").sort("start", "workload", "device", "instance", "id")
    # Parts of one hold, cut by an outage or by another's, are one lease.
    spans = table.group_by("id").agg(pl.col("start").min(), pl.col("end").max())
    return (
        table.unique("id", keep="first", maintain_order=True)
        .drop("start", "end")
        .join(spans, on="id", maintain_order="left")
        .select(list(LEASE))
    )
