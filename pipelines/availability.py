"""What is free now and in the windows ahead, and whether what is promised fits.

Read from what was published: the state of each card at the last instant that the ledger knows of, reservations of the
configuration and of schedulers, what is out of use, limits beside what is held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Final

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from exporter.errors import LedgerError, UsageError, WorkError
from pipelines.booking import Booking, Conflict, Place, active_over, conflicts, given
from pipelines.config import Config
from pipelines.facts import ACCEPTANCE, BOOKING, LIMIT
from pipelines.fleet_state import CARD
from pipelines.health import DEVICE_STATE, OUT
from pipelines.instants import from_ms, to_ms
from pipelines.metering import Metered
from pipelines.publish import current, published_fleet
from pipelines.selectors import first_tenant

AHEAD: Final = timedelta(days=14)
_STATES: Final = ("held", "free", "down", "stranded", "unknown")
_STATE_OF: Final = {"allocated": "held", "idle": "free", "unobserved": "unknown"}


class Block(BaseModel):
    """Cards of one model that are wholly free on one node."""

    cluster: str | None
    node: str | None
    gpus: int


class ModelNow(BaseModel):
    """One GPU model at one instant, in cards; parts of cards count as parts.

    `free_whole` are cards free as a whole, `largest_block` the most of them on one node. What nobody observes is
    `unknown`, neither free nor held.
    """

    model: str | None
    cards: float
    held: float
    free: float
    down: float
    stranded: float
    unknown: float
    free_whole: int
    largest_block: int
    blocks: list[Block]


class Promise(BaseModel):
    """A reservation, and whether it can be kept."""

    model_config = ConfigDict(populate_by_name=True)

    id: str
    source: str
    tenant: str | None
    model: str | None
    gpus: int
    from_: datetime = Field(alias="from")
    to: datetime
    nodes: list[str]
    fits: bool
    why: str | None


class FreeWindow(BaseModel):
    """GPUs of a model that nobody has reserved and nothing takes out of use, over [from, to)."""

    model_config = ConfigDict(populate_by_name=True)

    model: str | None
    from_: datetime = Field(alias="from")
    to: datetime
    gpus: int
    largest_block: int


class Trouble(BaseModel):
    """A card that something is wrong with."""

    cluster: str | None
    node: str | None
    device: str
    state: str
    reason: str | None
    since: datetime


class LimitNow(BaseModel):
    """A scheduler's limit on GPUs at one time."""

    cluster: str | None
    kind: str
    name: str
    within: str | None
    model: str | None
    gpus: float
    used: float | None


class TestResult(BaseModel):
    """The newest result of an acceptance test on a node or device."""

    cluster: str | None
    node: str | None
    device: str | None
    test: str
    outcome: str
    value: float | None
    unit: str | None
    detail: str | None
    at: datetime


class Availability(BaseModel):
    """The answer of `gpuledger availability`."""

    as_of: datetime
    at: datetime
    models: list[ModelNow]
    reservations: list[Promise]
    windows: list[FreeWindow]
    trouble: list[Trouble]
    limits: list[LimitNow]
    tests: list[TestResult]

    def to_json(self) -> str:
        """The answer for scripts."""
        return self.model_dump_json(by_alias=True, indent=2)

    @property
    def refusals(self) -> list[str]:
        """What is promised and can't be kept, a line each."""
        return [promise.why for promise in self.reservations if promise.why is not None]


def availability(metered: Metered, config: Config, as_of: datetime, *, ahead: timedelta = AHEAD) -> Availability:
    """Return what is free at the ledger's last instant, and unreserved in the time ahead.

    Raises:
        LedgerError: the ledger holds nothing.
    """
    if metered.span is None:
        raise LedgerError("the ledger holds no sample and no allocation; run `gpuledger run --once`")
    at = from_ms(metered.span[1])
    bookings = promised(metered, config, at, at + ahead)
    capacity = capacity_ahead(metered, bookings, at, at + ahead)
    wrong = conflicts([b for b in bookings if b.source != "maintenance"], capacity)
    return Availability(
        as_of=as_of,
        at=at,
        models=_now(metered, metered.span[1]),
        reservations=[_promise(b, wrong) for b in bookings if b.source != "maintenance"],
        windows=_windows(bookings, capacity),
        trouble=_trouble(metered, metered.span[1]),
        tests=_tests(metered),
        limits=[
            LimitNow(**row) for row in _table(metered, "quota_limit", LIMIT).drop("observed").iter_rows(named=True)
        ],
    )


def published_availability(config: Config) -> Availability | None:
    """Return the answer of what is published; None: that is nothing yet."""
    if current(config.ledger) is None:
        return None
    metered, as_of = published_fleet(config.ledger)
    return None if metered.span is None else availability(metered, config, as_of)


def refuse_unless_fits(metered: Metered, config: Config, wanted: Booking) -> None:
    """Check one more reservation beside those that are there.

    Raises:
        UsageError: it lies in the past.
        WorkError: it doesn't fit; the message names what it collides with.
    """
    if metered.span is None:
        raise LedgerError("the ledger holds no sample and no allocation; run `gpuledger run --once`")
    at = from_ms(metered.span[1])
    if wanted.end <= at:
        raise UsageError(
            f"--to {wanted.end:%Y-%m-%dT%H:%MZ} is past: the ledger knows {at:%Y-%m-%dT%H:%MZ}; write a later one"
        )
    bookings = [*promised(metered, config, at, wanted.end), wanted]
    capacity = capacity_ahead(metered, bookings, max(at, wanted.start), wanted.end)
    wrong = [
        c for c in conflicts([b for b in bookings if b.source != "maintenance"], capacity) if c.booking.id == wanted.id
    ]
    if wrong:
        raise WorkError(str(wrong[0]))


def promised(metered: Metered, config: Config, start: datetime, end: datetime) -> list[Booking]:
    """Return the reservations that touch [start, end): the configuration's first, then schedulers'."""
    found = [
        Booking(r.id, "configuration", r.tenant, r.model, r.gpus, r.from_, r.to)
        for r in config.reservations
        if r.from_ < end and r.to > start
    ]
    cards = _cards_now(metered, start)
    for row in _table(metered, "booking", BOOKING).iter_rows(named=True):
        if row["from"] >= end or row["to"] <= start:
            continue
        nodes = frozenset(row["nodes"] or ())
        own = cards.filter(pl.col("node").is_in(sorted(nodes)), pl.col("cluster").eq_missing(row["cluster"]))
        there = own.select("device").n_unique() if nodes else 0
        tenants = [
            first_tenant(config.tenants, {"cluster": row["cluster"], "slurm_account": a}) for a in row["accounts"] or ()
        ]
        found.append(
            Booking(
                row["booking"], "maintenance" if row["maintenance"] else "slurm",
                next((t.id for t in tenants if t is not None), None), row["model"],
                row["gpus"] if row["gpus"] is not None else there, row["from"], row["to"], nodes, row["cluster"],
            )
        )  # fmt: skip
    return found


def _cards_now(metered: Metered, start: datetime) -> pl.DataFrame:
    """Return the cards that are there where the data end; without data, at `start`."""
    last = metered.span[1] if metered.span else to_ms(start)
    return _table(metered, "card", CARD).filter((pl.col("start") < last) & (pl.col("end") >= last))


def capacity_ahead(
    metered: Metered, bookings: Iterable[Booking], start: datetime, end: datetime
) -> dict[tuple[datetime, datetime], dict[Place, int]]:
    """Return the cards of each place by stretch of [start, end): those that are there now and not out of use then."""
    cards = _cards_now(metered, start)
    states = _table(metered, "device_state", DEVICE_STATE).filter(pl.col("state").is_in(OUT))
    listed = list(bookings)
    out: dict[tuple[str | None, str], list[tuple[datetime, datetime]]] = {}
    for row in states.iter_rows(named=True):
        until = end if row["end"] is None else from_ms(row["end"])
        out.setdefault((row["cluster"], row["device"]), []).append((from_ms(row["start"]), until))
    edges = {
        start,
        end,
        *(t for b in listed for t in (b.start, b.end)),
        *(t for s in out.values() for x in s for t in x),
    }
    inside = sorted(t for t in edges if start <= t <= end)
    found: dict[tuple[datetime, datetime], dict[Place, int]] = {}
    for a, b in pairwise(inside):
        closed = {
            (x.cluster, node)
            for x in listed
            if x.source == "maintenance" and x.start <= a and x.end >= b
            for node in x.nodes
        }
        count: dict[Place, int] = {}
        for card in cards.iter_rows(named=True):
            gone = any(s <= a and e >= b for s, e in out.get((card["cluster"], card["device"]), ()))
            if not gone and (card["cluster"], card["node"]) not in closed:
                place = Place(card["cluster"], card["node"], card["model"])
                count[place] = count.get(place, 0) + 1
        found[a, b] = count
    return found


def _now(metered: Metered, last: int) -> list[ModelNow]:
    """Return each model as it is at the last instant: as usage has it before, but for what ended then."""
    over = set(metered.leases.filter(pl.col("ended") & (pl.col("end") <= last))["id"])
    rows = metered.usage.filter((pl.col("start") < last) & (pl.col("end") >= last))
    cards: dict[tuple[str | None, str | None, str | None, str], dict[str, Fraction]] = {}
    for row in rows.iter_rows(named=True):
        card = cards.setdefault((row["model"], row["cluster"], row["node"], row["device"]), {})
        state = "free" if row["lease"] in over else _STATE_OF.get(row["state"], row["state"])
        card[state] = card.get(state, Fraction(0)) + Fraction(row["weight_num"], row["weight_den"])
    models: dict[str | None, dict[str, Fraction]] = {}
    free: dict[str | None, dict[tuple[str | None, str | None], int]] = {}
    for (model, cluster, node, _), parts in cards.items():
        sums = models.setdefault(model, dict.fromkeys(("cards", *_STATES), Fraction(0)))
        sums["cards"] += 1
        for state, weight in parts.items():
            sums[state] += weight
        if parts.get("free") == 1:
            blocks = free.setdefault(model, {})
            blocks[cluster, node] = blocks.get((cluster, node), 0) + 1
    return [
        ModelNow(
            model=model,
            **{name: round(float(value), 6) for name, value in sums.items()},
            free_whole=sum(free.get(model, {}).values()),
            largest_block=max(free.get(model, {}).values(), default=0),
            blocks=[
                Block(cluster=cluster, node=node, gpus=gpus)
                for (cluster, node), gpus in sorted(free.get(model, {}).items(), key=lambda b: (-b[1], str(b[0])))
            ],
        )
        for model, sums in sorted(models.items(), key=lambda each: str(each[0]))
    ]


def _promise(booking: Booking, wrong: Sequence[Conflict]) -> Promise:
    why = next(
        (
            str(conflict)
            for conflict in wrong
            if (conflict.booking.id, conflict.booking.source, conflict.booking.model)
            == (booking.id, booking.source, booking.model)
        ),
        None,
    )
    return Promise(
        id=booking.id, source=booking.source, tenant=booking.tenant, model=booking.model, gpus=booking.gpus,
        from_=booking.start, to=booking.end, nodes=sorted(booking.nodes), fits=why is None, why=why,
    )  # fmt: skip


def _windows(
    bookings: Sequence[Booking], capacity: Mapping[tuple[datetime, datetime], Mapping[Place, int]]
) -> list[FreeWindow]:
    """Return by model how many cards nobody has reserved, one window for each stretch in which that stays the same."""
    found: dict[str | None, list[FreeWindow]] = {}
    models = sorted({place.model for places in capacity.values() for place in places}, key=str)
    for (start, end), places in capacity.items():
        active = active_over((b for b in bookings if b.source != "maintenance"), start, end)
        left = dict(places)
        for taken in given(active, places).values():
            for place, count in taken.items():
                left[place] -= count
        for model in models:
            counts = [count for place, count in left.items() if place.model == model]
            block = max(counts, default=0)
            window = FreeWindow(model=model, from_=start, to=end, gpus=sum(counts), largest_block=block)
            before = found.setdefault(model, [])
            if before and before[-1].to == start and _alike(before[-1], window):
                before[-1] = before[-1].model_copy(update={"to": end})
            else:
                before.append(window)
    return [window for windows in found.values() for window in windows]


def _alike(one: FreeWindow, other: FreeWindow) -> bool:
    return (one.gpus, one.largest_block) == (other.gpus, other.largest_block)


def _trouble(metered: Metered, last: int) -> list[Trouble]:
    states = _table(metered, "device_state", DEVICE_STATE).filter(
        (pl.col("start") <= last) & (pl.col("end").is_null() | (pl.col("end") > last))
    )
    return [
        Trouble(
            cluster=row["cluster"], node=row["node"], device=row["device"], state=row["state"], reason=row["reason"],
            since=from_ms(row["start"]),
        )
        for row in states.iter_rows(named=True)
    ]  # fmt: skip


def _tests(metered: Metered) -> list[TestResult]:
    """Return the newest result of each test, what failed first."""
    rank = pl.col("outcome").replace_strict({"fail": 0, "warn": 1, "pass": 2, "skip": 3}, default=4)
    newest = (
        _table(metered, "acceptance", ACCEPTANCE)
        .sort("at")
        .unique(["cluster", "node", "device", "test"], keep="last", maintain_order=True)
        .sort(rank, "node", "device", "test")
    )
    return [TestResult(**row) for row in newest.drop("source").iter_rows(named=True)]


def _table(metered: Metered, name: str, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    return metered.state.get(name, pl.DataFrame(schema=schema))
