"""Where a line comes from: its leases, their hours and coverage, the rate entry, and sums that add up on the way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Final

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from exporter.errors import UsageError
from pipelines.book import journal
from pipelines.book.breakdown import hours_by, hours_of
from pipelines.book.compose import CAUSE_NAMES
from pipelines.book.document import Line, LinePart, Statement
from pipelines.book.price_walk import Repriced, contract_of, priced_by
from pipelines.book.reckoning import Reckoned, Reckoning, of_book
from pipelines.book.shelf import FOLDER, part_of, shelf
from pipelines.book.statements import statement
from pipelines.config import Config
from pipelines.config.money import Driver
from pipelines.config.recorded import span
from pipelines.instants import HOUR_MS, from_ms, to_ms
from pipelines.metering import Metered
from pipelines.money import largest_remainder, plain, round_money
from pipelines.periods import parse_period
from pipelines.publish import published_fleet
from pipelines.rated import Rated, TenantUse
from pipelines.rates import RateCard
from pipelines.rating import Charge, clipped, kwh, rate
from pipelines.report import Hours, Instant, Money, Ratio
from pipelines.sharing import Keys, keys_of, overhead_amount
from pipelines.statement import within_of

ORIGINS: Final = {
    "pod": "labels of samples (pod)",
    "job": "labels of samples (job)",
    "slurm": "Slurm's accounting",
    "allocations": "an allocations file",
}

_LISTED: Final = 5  # leases of a correction
_LOST: Final = ("stranded", "down", "repair")
_UNITS: Final = {"gpu_hours": "GPU-hours held", "energy": "kWh measured while held", "slurm_billing": "billing-hours"}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True, populate_by_name=True)


class UsageHour(_Part):
    """What of a lease fell into one hour (UTC), and how much of it was observed."""

    hour: Instant
    gpu_hours: Hours
    observed_gpu_hours: Hours


class LeasePart(_Part):
    """A lease in one class at one rate: hours × rate is its part of the line, before the cents are spread."""

    lease: str
    workload: str
    origin: str
    guessed: bool = Field(description="its device is a guess: counts for the bill, says nothing about utilisation")
    cluster: str | None
    node: str | None
    device: str | None
    model: str | None
    class_: str = Field(alias="class")
    reservation: str | None
    first: Instant
    last: Instant
    gpu_hours: Hours
    coverage: Ratio | None
    rate: str | None
    rate_entry: str
    amount: Money
    hours: list[UsageHour]


class Explanation(_Part):
    """A line, and what it is made of: `leases` add up to its quantity and amount, `hours` to each lease's hours.

    Of a reprice `repriced` has both sides, in the ledger's currency.
    """

    statement: str
    tenant: str
    period: str
    config_hash: str
    line: Line
    leases: list[LeasePart] = Field(default_factory=list)
    repriced: Repriced | None = None
    steps: list[str] = Field(default_factory=list, description="for what no lease of the tenant's own made")

    def to_json(self) -> str:
        """Return it as JSON."""
        return self.model_dump_json(indent=2)


def explain(config: Config, name: str, line: int) -> Explanation:
    """Return where a line comes from.

    Args:
        name: a statement's number ("2026-000017"), or tenant and period ("vision/2026-10"), which may be open.

    Raises:
        UsageError: no such statement or line.
        LedgerError: nothing was published yet, or the book was changed.
    """
    tenant, period = _named(config, name)
    found = statement(config, tenant, period)
    lines = {one.number: one for one in found.statement.lines}
    if line not in lines:
        raise UsageError(f"{name} has no line {line}; it has 1 to {len(lines)}")
    if found.book is not None:
        reckoned, known = of_book(found.book), found.book.metered()
    else:
        known, as_of = published_fleet(config.ledger)
        reckoned = Reckoning(config, known, as_of).of(parse_period(period, config.timezone))
        if reckoned.pieces:
            month = lines[line].charge_period
            raise UsageError(f"{name} adds up its months; explain the line where it stands, in {tenant}/{month}")
    metered = reckoned.metered_from(known)
    return _explained(found.statement, lines[line], reckoned, metered, name, config.ledger / FOLDER)


def _named(config: Config, name: str) -> tuple[str, str]:
    tenant, slash, period = name.partition("/")
    if slash:
        return tenant, period
    for book in shelf(config.ledger / FOLDER):
        for tenant, number in book.numbers.items():
            if number == name:
                return tenant, book.period
    raise UsageError(f"{name}: no statement has this number; write TENANT/PERIOD for one that isn't closed")


def _explained(
    statement: Statement, line: Line, reckoned: Reckoned, metered: Metered, name: str, books: Path
) -> Explanation:
    tenant = statement.tenant.id
    leases: list[LeasePart] = []
    if line.kind == "usage":
        own = [c for c in reckoned.rated.charges if c.tenant == tenant and c.reservation is None]
        leases = _leases(tenant, own, line, reckoned, metered, statement.currency)
    note = journal.note_of(books, line.reference) if line.reference else {}
    walk = note.get("walks", {}).get(line.reference)
    repriced = None if walk is None else Repriced.model_validate(walk)
    return Explanation(
        statement=name,
        tenant=tenant,
        period=statement.label,
        config_hash=statement.config_hash,
        line=line,
        leases=leases,
        repriced=repriced,
        steps=[
            *_steps(line, reckoned, statement),
            *_late(line, reckoned, metered, books, tenant),
            *_repriced_steps(line, reckoned, repriced, note.get("prices")),
            *_converted(statement),
        ],
    )


_Key = tuple[str, str, str | None, Fraction]


def _leases(
    tenant: str, charges: list[Charge], line: Line, reckoned: Reckoned, metered: Metered, currency: str
) -> list[LeasePart]:
    """Part a line by lease, class, reservation and rate; cents go by largest remainder, as everywhere."""
    grouped: dict[_Key, list[Charge]] = defaultdict(list)
    for charge in charges:
        grouped[charge.lease, charge.class_, charge.reservation, charge.rate or Fraction(0)].append(charge)
    keys = sorted(grouped, key=lambda k: (k[0], k[1], k[2] or "", k[3]))
    weights = {i: sum((hours_of(c) for c in grouped[k]), Fraction(0)) * k[3] for i, k in enumerate(keys)}
    amounts = largest_remainder(Decimal(line.amount), weights, currency)
    attributes = {row["id"]: row for row in metered.leases.iter_rows(named=True)}
    observed = _observed(metered, {key[0] for key in keys}, reckoned)
    card = RateCard(reckoned.config)
    contract = contract_of(card, reckoned.config, tenant)
    found = []
    for i, key in enumerate(keys):
        lease, class_, reservation, _ = key
        own, row = grouped[key], attributes[lease]
        hours = _by_hour(own, observed.get(lease, {}))
        gpu_hours = sum((hours_of(c) for c in own), Fraction(0))
        seen = sum((h.observed_gpu_hours for h in hours), 0.0)
        found.append(
            LeasePart(
                lease=lease, workload=row["workload"], origin=ORIGINS.get(row["kind"], row["kind"]),
                guessed=row["guessed"], cluster=row["cluster"], node=row["node"], device=row["device"],
                model=row["model"], class_=class_, reservation=reservation,
                first=from_ms(min(c.start for c in own)), last=from_ms(max(c.end for c in own)),
                gpu_hours=_number(gpu_hours),
                coverage=min(round(seen / float(gpu_hours), 6), 1.0) if gpu_hours else None,
    rate=_rate(own),
                rate_entry=priced_by(card, own[0].model, own[0].class_, own[0].start, contract),
                amount=plain(amounts[i]), hours=hours,
            )
        )  # fmt: skip
    return found


def _observed(metered: Metered, leases: set[str], reckoned: Reckoned) -> dict[str, dict[int, tuple[float, float]]]:
    """Return by lease and hour (ms) the GPU-hours held and observed."""
    period = reckoned.report.period
    usage = clipped(metered.usage, (to_ms(period.from_), to_ms(period.to))).filter(
        (pl.col("state") == "allocated") & pl.col("lease").is_in(list(leases))
    )
    part = pl.col("weight_num") / pl.col("weight_den") / HOUR_MS
    sums = (
        usage.with_columns(hour=pl.col("start") // HOUR_MS * HOUR_MS)
        .group_by("lease", "hour")
        .agg(
            held=((pl.col("end") - pl.col("start")) * part).sum(),
            seen=(pl.col("busy_observed_ms") * part).sum(),
        )
    )
    found: dict[str, dict[int, tuple[float, float]]] = defaultdict(dict)
    for lease, hour, held, seen in sums.sort("lease", "hour").iter_rows():
        found[lease][hour] = (held, seen)
    return found


def _by_hour(charges: Iterable[Charge], observed: dict[int, tuple[float, float]]) -> list[UsageHour]:
    """Cut charges at hours; of an hour that several classes share, each has its part of what was observed."""
    hours: dict[int, Fraction] = defaultdict(Fraction)
    for charge in charges:
        at = charge.start
        while at < charge.end:
            until = min(charge.end, (at // HOUR_MS + 1) * HOUR_MS)
            hours[at // HOUR_MS * HOUR_MS] += charge.gpus * (until - at) / HOUR_MS
            at = until
    found = []
    for hour, amount in sorted(hours.items()):
        held, seen = observed.get(hour, (0.0, 0.0))
        share = float(amount) / held if held else 0.0
        found.append(
            UsageHour(hour=from_ms(hour), gpu_hours=_number(amount), observed_gpu_hours=round(seen * share, 6))
        )
    return found


def _rate(charges: list[Charge]) -> str | None:
    rate = charges[0].rate
    return None if rate is None else format(Decimal(rate.numerator) / Decimal(rate.denominator), "f")


def _steps(line: Line, reckoned: Reckoned, statement: Statement) -> Iterable[str]:
    """Say how a line comes about that no lease of the tenant's own made; amounts are the ledger's."""
    config, report, tenant = reckoned.config, reckoned.report, statement.tenant.id
    row = next(t for t in report.tenants if t.tenant == tenant)
    money, own = f"{config.currency} ", f"{statement.currency} "
    total = sum((Decimal(getattr(t.charges, line.kind)) for t in report.tenants), Decimal(0))
    amount = getattr(row.charges, line.kind)
    share = f"of {money}{total} that tenants share, this tenant's part is {money}{amount}"
    use = reckoned.rated.tenants.get(tenant, TenantUse())
    if line.kind == "reservation":
        yield from (f"{p.description}: {p.quantity} GPU-hours × {own}{p.rate} = {own}{p.amount}" for p in line.parts)
        unused, reserved = row.gpu_hours.reserved_unused, row.gpu_hours.reserved
        yield f"of it {reserved} GPU-hours were used and {unused} were not; both are paid for"
    elif line.kind == "credit":
        yield from (_credited(part, use, config, own) for part in line.parts)
    elif line.kind == "idle":
        yield from _idle_steps(line, reckoned, tenant, own)
        yield share
    elif line.kind == "overhead":
        parts = {part.description: part.amount for part in line.parts}
        keys = keys_of(reckoned.rated)
        for pool in config.overheads_in_force:
            start, end = span(pool)
            if end <= report.period.from_ or start >= report.period.to:
                continue
            mine = f"; this tenant's part is {own}{parts[pool.name]}" if pool.name in parts else ""
            cost = round_money(overhead_amount(pool, reckoned.period, config.timezone), config.currency)
            whole = "" if cost == pool.monthly else f", of which {money}{plain(cost)} is this period's"
            driven = _driven(pool.split, keys, tenant)
            yield f"{pool.name}: {money}{pool.monthly} a month{whole}, split {pool.split}{mine}{driven}"
        yield share
    elif line.kind == "commitment":
        settings = next(t for t in config.tenants if t.id == tenant)
        agreed = " and ".join(f"{money}{c.monthly} a month" for c in settings.commitment_in_force)
        yield f"committed to at least {agreed}, for usage and reservations"
        spent = f"usage of {money}{row.charges.usage} and reservations of {money}{row.charges.reservation}"
        yield f"{spent} leave {money}{amount}"
    elif line.kind == "energy":
        energy = kwh(use.held.joules) or Fraction(0)
        yield (
            f"{float(energy):.6f} kWh measured while held × PUE {config.energy.pue}"
            f" × {money}{config.energy.price_per_kwh} per kWh = {money}{amount}"
        )
    elif line.kind == "adjustment":
        entry = next(e for e in reckoned.entries if e.id == line.reference)
        yield f"{entry.described()}, booked in {entry.period} about {entry.charge_period}"
        if entry.kind == "late_data":
            yield f"what is known now of {entry.charge_period} at the rates of then, less what was charged for it"
        elif entry.reverses:
            yield f"it takes back {entry.reverses}, of which `gpuledger adjust --list` says more"


def _driven(split: Driver, keys: Keys, tenant: str) -> str:
    """Say what the tenant has of a measured driver, and what there is of it, nobody's too."""
    measured = keys.measured(split)
    if not measured:
        return ""
    own, whole = measured.get(tenant, Fraction(0)), sum(measured.values(), Fraction(0))
    return f", by {float(own):.6f} of {float(whole):.6f} {_UNITS[split]}"


def _repriced_steps(line: Line, reckoned: Reckoned, walk: Repriced | None, prices: str | None) -> Iterable[str]:
    """Say what a month was closed with, what it comes to at the prices of the reprice, and what that leaves."""
    entry = next((e for e in reckoned.entries if e.id == line.reference), None)
    if entry is None or entry.kind != "reprice":
        return
    card = f"the prices of configuration {(prices or 'unknown')[:12]}"
    if walk is None:
        yield f"by {card}; it was booked by a release that didn't keep the entries of the rate card with it"
        return
    before = f", less {walk.booked_before} that was booked before" if Decimal(walk.booked_before) else ""
    yield (
        f"{entry.charge} of {entry.charge_period} was closed with {walk.then_amount} and comes to {walk.now_amount} at"
        f" {card}: the difference{before} is {plain(entry.amount)}"
    )


def _credited(part: LinePart, use: TenantUse, config: Config, own: str) -> str:
    """Say what a reservation's credit is for."""
    down = f"{part.description}: {own}{part.amount}, GPUs down beyond what was in use"
    fee, credit = use.fees.get(part.reservation or ""), use.credits.get(part.reservation or "")
    if not fee or not credit or not config.sla.thresholds:
        return down
    return f"{down}: {100 * float(abs(credit) / fee):.6g} % of its fee in this period, by the thresholds of `sla`"


def _late(line: Line, reckoned: Reckoned, metered: Metered, books: Path, tenant: str) -> Iterable[str]:
    """Name the leases whose charged hours are others than when their month was closed, as they are known now."""
    entry = next((e for e in reckoned.entries if e.id == line.reference), None)
    if entry is None or entry.kind != "late_data" or reckoned.kept is not None:
        return
    book = next((b for b in shelf(books) if b.period == entry.charge_period), None)
    if book is None:
        return
    then = of_book(book)
    now = rate(part_of(metered, then.period), book.config, within_of(then.period))
    before, after = (_charged(rated, tenant) for rated in (then.rated, now))
    changed = {
        key: after.get(key, Fraction(0)) - before.get(key, Fraction(0))
        for key in sorted({*before, *after})
        if after.get(key) != before.get(key)
    }
    for (lease, workload, class_), hours in list(changed.items())[:_LISTED]:
        yield f"{workload} (lease {lease}), {class_.replace('_', ' ')}: {float(hours):+.6f} GPU-hours"
    if len(changed) > _LISTED:
        yield f"and {len(changed) - _LISTED} more leases"
    if not changed:
        yield "none of its own leases changed: shared costs are shared anew"


def _charged(rated: Rated, tenant: str) -> dict[tuple[str, str, str], Fraction]:
    charges = (c for c in rated.charges if c.tenant == tenant)
    return hours_by(charges, lambda c: (c.lease, c.workload, c.class_))


def _idle_steps(line: Line, reckoned: Reckoned, tenant: str, own: str) -> Iterable[str]:
    config, rated = reckoned.config, reckoned.rated
    yield f"policy {config.idle.policy}: idle capacity beyond unused reservations, at its on-demand price"
    for cause in ("reserved_unused", "stranded", "down", "repair"):
        policy = getattr(config.idle, cause)
        if policy != type(config.idle).model_fields[cause].default:
            yield f"policy {policy} for what is {CAUSE_NAMES[cause]}"
    lost = {
        CAUSE_NAMES["unallocated"]: rated.fleet.hours.get("idle", Fraction(0)),
        **{CAUSE_NAMES[c]: sum((h for h, _ in rated.fleet.lost.get(c, {}).values()), Fraction(0)) for c in _LOST},
    }
    for part in line.parts:
        hours = f", of {_number(lost[part.description])} GPU-hours in all" if part.description in lost else ""
        yield f"{part.description}: {own}{part.amount}{hours}"
    unused = rated.tenants.get(tenant, TenantUse()).unused_fees
    back = sum(unused.values(), Fraction(0))
    if config.idle.reserved_unused != "owner" and back:
        fee = plain(round_money(back, config.currency))
        yield f"{CAUSE_NAMES['reserved_unused']}: {config.currency} {fee} of its own fees is given back and shared anew"


def _converted(statement: Statement) -> Iterable[str]:
    stamp = statement.exchange
    if stamp is not None:
        source = f" ({stamp.source})" if stamp.source else ""
        yield (
            f"the statement's {stamp.currency} {stamp.total} × {stamp.rate}{source} is {statement.currency}"
            f" {statement.total}; lines are parts of it, and prices above are in {stamp.currency}"
        )


def _number(value: Fraction) -> float:
    return round(float(value), 6) + 0.0
