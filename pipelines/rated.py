"""A rated period: what each tenant held, by class and workload, and what it comes to before any line is rounded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Final, NamedTuple

from pipelines.analysis.losses import ByCause
from pipelines.billing_hours import Billed
from pipelines.classes import CLASSES, Class
from pipelines.instants import HOUR_MS
from pipelines.tables import Finding

ZERO: Final = Fraction(0)
ByModel = dict[str | None, tuple[Fraction, Fraction]]
"""Hours and money by model."""


@dataclass(slots=True)
class Held:
    """Sums over what one lease, workload or tenant held in the period, in GPU-ms unless said.

    Attributes:
        seen, busy: of what was observed; busy is the activity in it.
        observed_allocated, active: of the leases ever observed.
        waste: money, (allocated − active) at the on-demand rate.
        leases: how many leases, and how many of them were ever observed.
    """

    allocated: Fraction = ZERO
    seen: Fraction = ZERO
    observed_allocated: Fraction = ZERO
    active: Fraction = ZERO
    waste: Fraction = ZERO
    leases: int = 0
    observed_leases: int = 0
    joules: float | None = None

    def add(self, other: Held) -> None:
        """Add another's sums."""
        self.allocated += other.allocated
        if other.seen:  # a sum of fractions costs as much where one of them is 0
            self.seen += other.seen
            self.observed_allocated += other.observed_allocated
            self.active += other.active
            self.waste += other.waste
        self.leases += other.leases
        self.observed_leases += other.observed_leases
        if other.joules is not None:
            self.joules = (self.joules or 0.0) + other.joules

    @classmethod
    def total(cls, parts: list[Held]) -> Held:
        """Return the sums of many, each added up at once; of one, the very one."""
        if len(parts) == 1:
            return parts[0]
        joules: float | None = None
        for part in parts:  # one after the other: sum() adds floats otherwise from Python 3.12 on
            if part.joules is not None:
                joules = (joules or 0.0) + part.joules
        return cls(
            allocated=exact_sum(part.allocated for part in parts),
            seen=exact_sum(part.seen for part in parts),
            observed_allocated=exact_sum(part.observed_allocated for part in parts),
            active=exact_sum(part.active for part in parts),
            waste=exact_sum(part.waste for part in parts),
            leases=sum(part.leases for part in parts),
            observed_leases=sum(part.observed_leases for part in parts),
            joules=joules,
        )

    @property
    def utilization(self) -> Fraction | None:
        """Active ÷ the allocated hours of the observed leases."""
        return self.active / self.observed_allocated if self.observed_allocated else None

    @property
    def coverage(self) -> Fraction | None:
        """The share of the allocated time with a valid busy sample."""
        return self.seen / self.allocated if self.allocated else None


@dataclass(slots=True)
class WorkloadUse:
    """A workload of one tenant in the period."""

    cluster: str
    workload: str
    user: str | None
    start: int
    end: int
    held: Held = field(default_factory=Held)
    usage: Fraction = ZERO
    reserved_cost: Fraction = ZERO
    causes: ByCause = field(default_factory=dict)


@dataclass
class TenantUse:
    """What one tenant held in the period, and what its own lines come to before rounding.

    Attributes:
        hours: GPU-hours by class.
        list_price: allocated hours at the on-demand rate.
        unused: unused reserved hours by reservation; `unused_list_price` at the on-demand rate.
        fees, credits: money by reservation; `unused_fees`: of the fees, what unused hours cost.
        spent, fees_spent: usage and fees by local month (its start in ms).
        means: how busy each lease was, where it was observed.
        out: GPU-hours that were out of use, of what it held, has reserved or owns.
    """

    held: Held = field(default_factory=Held)
    hours: dict[Class, Fraction] = field(default_factory=lambda: dict.fromkeys(CLASSES, ZERO))
    workloads: dict[tuple[str, str], WorkloadUse] = field(default_factory=dict)
    usage: Fraction = ZERO
    reservation: Fraction = ZERO
    credit: Fraction = ZERO
    list_price: Fraction = ZERO
    unused: dict[str, Fraction] = field(default_factory=dict)
    unused_list_price: Fraction = ZERO
    fees: dict[str, Fraction] = field(default_factory=dict)
    credits: dict[str, Fraction] = field(default_factory=dict)
    means: dict[str, Fraction] = field(default_factory=dict)
    unused_fees: dict[str, Fraction] = field(default_factory=dict)
    spent: dict[int, Fraction] = field(default_factory=dict)
    fees_spent: dict[int, Fraction] = field(default_factory=dict)
    has_reservation: bool = False
    out: Fraction = ZERO

    @property
    def availability(self) -> Fraction | None:
        """The share of the time in which what was meant for it could be used; None: nothing was."""
        meant = self.held.allocated / HOUR_MS + sum(self.unused.values(), ZERO) + self.out
        return 1 - self.out / meant if meant else None


@dataclass
class FleetUse:
    """Where the fleet's device time went, in GPU-hours by state, and what it is worth.

    Attributes:
        lost: by what it was lost to (idle, stranded, down, repair), hours by model and their on-demand price.
        owned: the same of dedicated devices, by owner.
    """

    hours: dict[str, Fraction]
    capacity_price: Fraction
    devices: int
    joules: float | None
    lost: dict[str, ByModel]
    owned: dict[str, dict[str, ByModel]]


class Charge(NamedTuple):
    """A part of a lease in one class at one rate (None: no price is known)."""

    tenant: str | None
    lease: str
    workload: str
    model: str | None
    start: int
    end: int
    gpus: Fraction
    class_: Class
    reservation: str | None
    rate: Fraction | None


@dataclass
class Rated:
    """A period, rated; `tenants` holds None for what no tenant owns."""

    fleet: FleetUse
    tenants: dict[str | None, TenantUse]
    charges: list[Charge]
    findings: list[Finding]
    billed: Billed | None = None


def exact_sum(amounts: Iterable[Fraction]) -> Fraction:
    """Return the sum of many fractions: whole numbers by denominator first, then the few sums that are left, by pairs.

    One after the other would look for a common divisor each time, and drag a growing denominator along.
    """
    by_denominator: dict[int, int] = {}
    for amount in amounts:
        denominator = amount.denominator
        by_denominator[denominator] = by_denominator.get(denominator, 0) + amount.numerator
    sums = [Fraction(numerator, denominator) for denominator, numerator in sorted(by_denominator.items())]
    while len(sums) > 1:
        pairs = [one + other for one, other in zip(sums[::2], sums[1::2], strict=False)]
        sums = pairs + sums[2 * len(pairs) :]
    return sums[0] if sums else ZERO


def quotient(amount: Fraction, by: Fraction | int) -> float:
    """Return amount ÷ by as the float nearest to it, without the fraction in lowest terms between."""
    return (amount.numerator * by.denominator) / (amount.denominator * by.numerator)


def kwh(joules: float | None) -> Fraction | None:
    """Return energy in kWh; measured to the millionth of a Wh, so that money on it is exact."""
    return None if joules is None else Fraction(Decimal(repr(round(joules / 3_600_000, 9))))
