"""The money sections of the configuration: prices, what is agreed with a tenant, and who pays for what nobody used."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, Literal, Self, TypeVar

from pydantic import Field, field_validator, model_validator

from pipelines.config.scalars import Amount, Count, Currency, Glob, Instant, PositiveCount, Text, fault
from pipelines.config.section import Recorded, Section

S = TypeVar("S", bound=Section)
PERCENT: Final = Decimal(100)
Policy = Literal["platform", "proportional", "even", "owner"]
Driver = Literal["even", "proportional", "gpu_hours", "energy", "slurm_billing", "fixed"]
PricedClass = Literal["on_demand", "overflow", "spot", "reserved"]


class Budget(Section):
    """What a tenant means to spend in a month."""

    monthly: Amount | None = None
    """Money per local month."""
    gpu_hours: Amount | None = None
    """GPU-hours per local month."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.monthly is None and self.gpu_hours is None:
            raise fault("no amount", 'write monthly: "20000.00" or gpu_hours: "8000"')
        return self


class Quota(Section):
    """What a tenant holds beyond it is class overflow."""

    gpus: Count | None = None
    """GPUs at one time."""


class Tier(Section):
    """A step of a volume tier."""

    above: Amount
    """GPU-hours of a local month beyond which the price holds."""
    price: Amount
    """Price per GPU-hour."""


class Rate(Recorded):
    """Prices per GPU-hour. The first entry that matches model and time wins."""

    model: Glob
    """Models that it prices."""
    on_demand: Amount
    """Price of class on_demand, and of each class without one of its own."""
    reserved: Amount | None = None
    """Price of reserved GPUs, used or not."""
    overflow: Amount | None = None
    """Price beyond quota or reservation."""
    spot: Amount | None = None
    """Price of what `spot` selects."""
    tiers: tuple[Tier, ...] = ()
    """On-demand prices by a tenant's volume in a local month: of the hours that `on_demand` is charged for."""
    tiering: Literal["graduated", "all_units"] = "graduated"
    """graduated: each step prices the hours within it; all_units: the highest step reached prices all hours."""

    @model_validator(mode="after")
    def _tiers_rise(self) -> Self:
        for one, other in zip(self.tiers, self.tiers[1:], strict=False):
            if other.above <= one.above:
                raise fault(
                    f"a tier above {other.above} follows one above {one.above}", "write them rising", key="tiers"
                )
        return self

    def price(self, class_: str) -> Decimal:
        """Price per GPU-hour of a class, falling back to on demand."""
        own: Decimal | None = {"reserved": self.reserved, "overflow": self.overflow, "spot": self.spot}.get(class_)
        return self.on_demand if own is None else own

    def by_volume(self, class_: str) -> bool:
        """Whether a class is charged at `on_demand`, and so by its tiers."""
        return class_ == "on_demand" or getattr(self, class_) is None


class Reservation(Section):
    """GPUs that a tenant pays for over [from, to), used or not."""

    id: Text
    """Its name, once in the file."""
    tenant: Text
    """Id of the tenant that pays."""
    model: Glob = "*"
    """Models that it takes."""
    gpus: PositiveCount
    """How many."""
    from_: Instant = Field(alias="from")
    """First instant."""
    to: Instant
    """Up to, and without, this instant."""
    rate: Amount | None = None
    """Price per GPU-hour; left out: that of the first `rates` entry that matches its model text."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.to <= self.from_:
            raise fault("`to` is not after `from`", "write a later time", key="to")
        return self


class Discount(Recorded):
    """What is taken off a tenant's prices."""

    percent: Amount
    """0 to 100."""
    model: Glob = "*"
    """Models that it is for; of a reservation, the text of its glob."""
    classes: tuple[PricedClass, ...] = ("on_demand", "overflow", "spot")
    """Classes that it is for; `reserved` takes it off reservations' prices."""

    @model_validator(mode="after")
    def _is_a_share(self) -> Self:
        return _percentage(self, self.percent, "percent")

    def matches(self, class_: str) -> bool:
        """Whether it is for a class."""
        return class_ in self.classes


class Commitment(Recorded):
    """What a tenant pays at least in a local month, for usage and reservations."""

    monthly: Amount
    """Money per local month; a part of a month commits to its part."""


class Exchange(Recorded):
    """A stamped rate of exchange. A statement takes the one that holds in the last instant of its period."""

    currency: Currency
    """ISO 4217 code of the statement's currency."""
    rate: Amount
    """Units of it for one unit of the ledger's currency."""
    source: Text | None = None
    """Where the rate is from; statements name it."""

    @field_validator("rate")
    @classmethod
    def _is_positive(cls, rate: Decimal) -> Decimal:
        if not rate:
            raise fault("a rate of 0", "write how many units one unit of the ledger's currency is")
        return rate


class Idle(Section):
    """Who pays for capacity that nobody used, by what it was lost to.

    Each is priced at the on-demand rate. platform: nobody; proportional: by usage; even: in equal parts; owner: who
    owns the dedicated device.
    """

    policy: Policy = "platform"
    """Capacity that nobody holds, beyond what is reserved."""
    reserved_unused: Policy = "owner"
    """Reserved and not used. owner: who reserved it, by its fee; else the fee is given back, and shared or not."""
    stranded: Policy = "platform"
    """Parts of cards that their MIG layout can't hand out."""
    down: Policy = "platform"
    """Devices that are down."""
    repair: Policy = "platform"
    """Devices that are down for repair (class `repair` of an allocations file)."""


class Energy(Section):
    """What energy costs and emits."""

    price_per_kwh: Amount | None = None
    """Money per kWh."""
    pue: Amount = Decimal(1)
    """Power usage effectiveness: energy of the building per energy of its machines, 1 or more."""
    carbon_g_per_kwh: Amount | None = None
    """Grams of CO2 equivalent per kWh."""
    charge: bool = False
    """Whether kWh × PUE × price is billed."""

    @model_validator(mode="after")
    def _chargeable(self) -> Self:
        if self.pue < 1:
            raise fault(f"a PUE of {self.pue} is below 1", 'write "1.0" or more', key="pue")
        if self.charge and self.price_per_kwh is None:
            raise fault("nothing to charge by", 'add price_per_kwh: "0.12"', key="charge")
        return self


class Overhead(Recorded):
    """A cost pool: a fixed monthly cost, shared by what drives it."""

    name: Text
    """Its name, once in the file."""
    monthly: Amount
    """Money per local month; a part of a month costs its part."""
    split: Driver = "even"
    """even: equal parts; proportional: by usage at list prices; gpu_hours: by hours held; energy: by kWh;
    slurm_billing: by billing-hours, of jobs without GPUs too (`billing` of a Slurm source); fixed."""
    shares: Mapping[str, Amount] = Field(default_factory=dict)
    """fixed: percent by tenant; what is left of 100 stays unbilled."""

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        if (self.split == "fixed") != bool(self.shares):
            raise fault("split: fixed and shares go together", 'write shares: {vision: "60"}', key="shares")
        total = sum(self.shares.values(), Decimal(0))
        if total > PERCENT:
            raise fault(f"shares of {total} percent", "write shares of at most 100 in all", key="shares")
        return self


class Threshold(Section):
    """An availability below which something is credited."""

    below: Amount
    """Percent of a reservation's GPU time in a local month that was not down beyond what was in use."""
    percent: Amount | None = None
    """Percent of the month's fee that is credited; left out: the time that was down."""

    @model_validator(mode="after")
    def _are_shares(self) -> Self:
        _percentage(self, self.below, "below")
        return _percentage(self, self.percent or Decimal(0), "percent")


class Sla(Section):
    """What is given back."""

    credit_downtime: bool = True
    """Whether reserved GPUs that were down are credited at the reservation's rate."""
    thresholds: tuple[Threshold, ...] = ()
    """Left out: all downtime is credited; else nothing is, unless availability is below one of these: the lowest."""

    @model_validator(mode="after")
    def _credits(self) -> Self:
        if self.thresholds and not self.credit_downtime:
            raise fault("thresholds credit nothing", "take credit_downtime: false out", key="thresholds")
        return self


def _percentage(section: S, value: Decimal, key: str) -> S:
    if value > PERCENT:
        raise fault(f"{value} percent is above 100", 'write a percentage, such as "10"', key=key)
    return section
