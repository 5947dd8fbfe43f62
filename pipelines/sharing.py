"""Costs that nobody caused alone: who shares idle capacity and overheads, and how much."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Final
from zoneinfo import ZoneInfo

from pipelines.config import Config, Overhead
from pipelines.config.money import Driver, Policy
from pipelines.instants import HOUR_MS, to_ms
from pipelines.money import largest_remainder, round_money
from pipelines.periods import Period, local_months
from pipelines.rated import ByModel, Rated, TenantUse, kwh
from pipelines.selectors import glob_matches

UNATTRIBUTED: Final = "\uffff unattributed"  # sorts after every tenant id, and is none
ZERO: Final = Fraction(0)
CAUSES: Final = ("unallocated", "reserved_unused", "stranded", "down", "repair")
"""What capacity that nobody used was lost to, in the order of statements."""

Shares = dict[str, Decimal]
"""Money by tenant."""


@dataclass(frozen=True)
class Keys:
    """What shares go by.

    Attributes:
        present: tenants with usage or a reservation.
        weight: (allocated + reserved unused) × on-demand rate by tenant; UNATTRIBUTED weighs as one.
        hours, energy: GPU-hours held and kWh measured meanwhile, the same way.
        billed: billing-hours of Slurm, the same way; of tenants that hold no GPU too.
    """

    present: list[str]
    weight: Mapping[str, Fraction]
    hours: Mapping[str, Fraction] = field(default_factory=dict)
    energy: Mapping[str, Fraction] = field(default_factory=dict)
    billed: Mapping[str, Fraction] = field(default_factory=dict)

    def share(
        self, amount: Fraction, split: Driver, currency: str, fixed: Mapping[str, Decimal] | None = None
    ) -> Shares:
        """Split an amount among the tenants; the part of what nobody owns stays out, as all does with nobody there.

        Args:
            fixed: percent by tenant, for the split of that name.
        """
        total = round_money(amount, currency)
        weights = {tenant: w for tenant, w in self._weights(split, fixed or {}).items() if w}
        if not total or not weights:
            return {}
        parts = largest_remainder(total, weights, currency)
        return {tenant: part for tenant, part in parts.items() if tenant != UNATTRIBUTED}

    def _weights(self, split: Driver, fixed: Mapping[str, Decimal]) -> Mapping[str, Fraction]:
        if split == "even":
            return dict.fromkeys(self.present, Fraction(1))
        if split == "fixed":
            rest = 100 - sum((Fraction(p) for p in fixed.values()), ZERO)
            return {**{tenant: Fraction(p) for tenant, p in fixed.items()}, UNATTRIBUTED: rest}
        return self.weight if split == "proportional" else self.measured(split)

    def measured(self, split: Driver) -> Mapping[str, Fraction]:
        """Return what each has of a driver that is measured; of another: nothing."""
        return {"gpu_hours": self.hours, "energy": self.energy, "slurm_billing": self.billed}.get(split, {})


@dataclass(frozen=True)
class Shared:
    """What tenants share in a period: idle capacity by cause, overheads by name, each by tenant.

    Attributes:
        overhead_cost: what all overheads cost, shared or not, exactly.
    """

    idle: Mapping[str, Shares]
    overheads: Mapping[str, Shares]
    overhead_cost: Fraction

    def idle_of(self, tenant: str) -> Decimal:
        """Return a tenant's part of all idle capacity."""
        return sum((shares.get(tenant, Decimal(0)) for shares in self.idle.values()), Decimal(0))

    def overhead_of(self, tenant: str) -> Decimal:
        """Return a tenant's part of all overheads."""
        return sum((shares.get(tenant, Decimal(0)) for shares in self.overheads.values()), Decimal(0))

    @property
    def tenants(self) -> set[str]:
        """Who has a part of anything."""
        return {tenant for shares in (*self.idle.values(), *self.overheads.values()) for tenant in shares}


def shared_costs(rated: Rated, config: Config, period: Period) -> Shared:
    """Return who shares what in a rated period; each cost is rounded once, before it is split."""
    used = users(rated)
    keys = keys_of(rated)
    costs = [(o, overhead_amount(o, period, config.timezone)) for o in config.overheads_in_force]
    overheads: dict[str, Shares] = {}
    for pool, cost in costs:
        shares = overheads.setdefault(pool.name, {})
        for tenant, part in keys.share(cost, pool.split, config.currency, pool.shares).items():
            shares[tenant] = shares.get(tenant, Decimal(0)) + part
    idle = {cause: _idle(cause, rated, used, keys, config) for cause in CAUSES}
    return Shared(idle, overheads, sum((cost for _, cost in costs), ZERO))


def users(rated: Rated) -> dict[str, TenantUse]:
    """Return the tenants with usage or a reservation."""
    return {t: use for t, use in rated.tenants.items() if t is not None and (use.held.allocated or use.has_reservation)}


def keys_of(rated: Rated) -> Keys:
    """Return what shares of a rated period go by."""
    used = users(rated)
    everyone: dict[str, TenantUse] = dict(used)
    if None in rated.tenants:
        everyone[UNATTRIBUTED] = rated.tenants[None]
    billed: dict[str, Fraction] = defaultdict(Fraction)
    for (tenant, _, _), hours in (rated.billed or {}).items():
        billed[UNATTRIBUTED if tenant is None else tenant] += hours
    return Keys(
        sorted(used),
        {t: use.list_price + use.unused_list_price for t, use in everyone.items()},
        {t: use.held.allocated / HOUR_MS for t, use in everyone.items()},
        {t: kwh(use.held.joules) or ZERO for t, use in everyone.items()},
        billed,
    )


def _idle(cause: str, rated: Rated, used: Mapping[str, TenantUse], keys: Keys, config: Config) -> Shares:
    if cause == "reserved_unused":
        return _reserved_unused(used, keys, config)
    policy: Policy = config.idle.policy if cause == "unallocated" else getattr(config.idle, cause)
    if policy == "platform":
        return {}
    state = "idle" if cause == "unallocated" else cause
    if policy == "owner":
        known = {t.id for t in config.tenants}
        amounts = {
            owner: round_money(_price(states.get(state, {}), cause, used, config, owner), config.currency)
            for owner, states in rated.fleet.owned.items()
        }
        return {owner: amount for owner, amount in amounts.items() if amount and owner in known}
    return keys.share(_price(rated.fleet.lost.get(state, {}), cause, used, config), policy, config.currency)


def _reserved_unused(used: Mapping[str, TenantUse], keys: Keys, config: Config) -> Shares:
    """Give fees of unused hours back to who reserved them, and share them out where the policy says so."""
    policy = config.idle.reserved_unused
    if policy == "owner":
        return {}
    fees = {t: sum(use.unused_fees.values(), ZERO) for t, use in used.items()}
    found = {t: -round_money(fee, config.currency) for t, fee in fees.items() if round_money(fee, config.currency)}
    if policy != "platform":
        for tenant, part in keys.share(-Fraction(sum(found.values())), policy, config.currency).items():
            found[tenant] = found.get(tenant, Decimal(0)) + part
    return found


def _price(
    lost: ByModel, cause: str, used: Mapping[str, TenantUse], config: Config, owner: str | None = None
) -> Fraction:
    """Return what lost hours are worth; unallocated ones beyond unused reservations, per model at its mean price."""
    left = {model: h for model, (h, _) in lost.items()}
    if cause == "unallocated":
        unused = [
            (used[r.tenant].unused.get(r.id, ZERO), r.model)
            for r in config.reservations
            if r.tenant in used and owner in (None, r.tenant)
        ]
        taken = [(h, [m for m in left if glob_matches(pattern, m or "")]) for h, pattern in unused]
        left = beyond_unused(left, taken)
    return sum((price * left[model] / h for model, (h, price) in lost.items() if h), ZERO)


def shortfalls(rated: Rated, config: Config, period: Period) -> Shares:
    """Return what tenants pay to reach what they committed to, for the local months that lie whole in the period.

    Usage and fees count as the lines of a month, so that together with the shortfall they come to the commitment.
    """
    months = [
        m
        for m in local_months(period.start, period.end, config.timezone)
        if period.start <= m.start and m.end <= period.end
    ]
    found: Shares = {}
    for tenant in config.tenants:
        use = rated.tenants.get(tenant.id, TenantUse())
        missing = Decimal(0)
        for month in months:
            agreed = sum((_within(Fraction(c.monthly), c.from_, c.to, month) for c in tenant.commitment_in_force), ZERO)
            start = to_ms(month.start)
            lines = (use.spent.get(start, ZERO), use.fees_spent.get(start, ZERO))
            spent = sum((round_money(line, config.currency) for line in lines), Decimal(0))
            missing += max(round_money(agreed, config.currency) - spent, Decimal(0))
        if missing:
            found[tenant.id] = missing
    return found


def overhead_amount(overhead: Overhead, period: Period, zone: ZoneInfo) -> Fraction:
    """Return what an overhead costs in a period: of each local month its monthly amount × overlap ÷ length."""
    amount = Fraction(0)
    for month in local_months(period.start, period.end, zone):
        first = max(period.start, overhead.from_ or period.start)
        amount += _within(Fraction(overhead.monthly), first, min(period.end, overhead.to or period.end), month)
    return amount


def _within(monthly: Fraction, start: datetime | None, end: datetime | None, month: Period) -> Fraction:
    """Return the part of a monthly amount that holds over [start, end)."""
    first, last = max(start or month.start, month.start), min(end or month.end, month.end)
    return monthly * Period(first, last).hours / month.hours if first < last else Fraction(0)


def beyond_unused(
    idle: Mapping[str | None, Fraction], unused: list[tuple[Fraction, list[str | None]]]
) -> dict[str | None, Fraction]:
    """Return the idle hours of each model beyond the unused hours of reservations.

    Args:
        idle: hours by model.
        unused: of each reservation, its unused hours and the models that it takes.
    """
    left = dict(idle)
    for hours, models in unused:
        open_hours = hours
        for model in sorted((m for m in models if m in left), key=str):
            take = min(open_hours, left[model])
            left[model] -= take
            open_hours -= take
    return left
