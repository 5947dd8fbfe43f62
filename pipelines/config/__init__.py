"""The one configuration: gpuledger.yaml as frozen models, checked as a whole.

Every time is an aware UTC datetime, every amount a `Decimal`, every period and zone known to exist.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from exporter.errors import ConfigError
from pipelines.config import faults, recorded, rules
from pipelines.config.access import Access, Grant, Proxy, Token
from pipelines.config.alerts import Alerts
from pipelines.config.money import (
    Budget,
    Commitment,
    Discount,
    Energy,
    Exchange,
    Idle,
    Overhead,
    Quota,
    Rate,
    Reservation,
    Sla,
    Threshold,
    Tier,
)
from pipelines.config.reading import read_yaml
from pipelines.config.reclaim import ReclaimPolicy
from pipelines.config.scalars import (
    UTC_ZONE,
    Amount,
    Currency,
    Day,
    Duration,
    Glob,
    Instant,
    SparkUrl,
    TenantId,
    Text,
    Zone,
    fault,
    zone_names,
)
from pipelines.config.section import Dated, Section
from pipelines.config.source import Kind, Source
from pipelines.periods import Period, parse_period
from pipelines.selectors import LIST_KEYS, SELECTOR_KEYS
from pipelines.tables import FINDING_CODES

__all__ = [
    "Access",
    "Attribution",
    "Budget",
    "Closing",
    "Commitment",
    "Config",
    "Discount",
    "Energy",
    "Engine",
    "Exchange",
    "Grant",
    "Idle",
    "Kind",
    "Mig",
    "Overhead",
    "Proxy",
    "Quota",
    "Rate",
    "Reservation",
    "Selector",
    "Sharing",
    "Sla",
    "Source",
    "Tenant",
    "Threshold",
    "Tier",
    "Token",
    "Window",
    "load",
    "reservation_rate",
    "speaks_for",
]


def load(path: Path) -> Config:
    """Read and check a configuration file.

    Raises:
        ConfigError: anything in it is wrong. The message names the first fault by file, line and key,
            and counts the others.
    """
    content, lines = read_yaml(path)
    # A section whose entries are all commented out is the section left out.
    content = {key: value for key, value in content.items() if value is not None}
    context = {"zone": _zone_of(content), "path": path}
    try:
        return Config.model_validate(content, context=context, by_alias=True, by_name=False)
    except ValidationError as error:
        raise faults.config_error(error, Config, path, lines) from None


class Selector(Dated):
    """All of its globs must match; a label that a workload doesn't have matches nothing, not even ``*``."""

    cluster: Glob | None = None
    """Cluster name, as the source's `cluster` gives it."""
    node: Glob | None = None
    """Host name."""
    namespace: Glob | None = None
    """Kubernetes namespace."""
    pod: Glob | None = None
    """Kubernetes pod name."""
    slurm_account: Glob | None = None
    """Slurm account."""
    slurm_partition: Glob | None = None
    """Slurm partition."""
    slurm_qos: Glob | None = None
    """Slurm QOS."""
    slurm_user: Glob | None = None
    """Slurm user."""
    slurm_account_tree: Glob | None = None
    """Slurm account or any account above it, by the tree that a `slurm_state` source tells."""
    namespace_label: Glob | None = None
    """A label of the Kubernetes namespace as `key=value`, from a `kube_state` source."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        for key in (*SELECTOR_KEYS, *LIST_KEYS):
            if key in self.model_fields_set and getattr(self, key) is None:
                raise fault("an empty value", "write a glob, or take the key out", key=key)
        if not self.globs:
            raise fault("no key to match by", f"write one of {', '.join((*SELECTOR_KEYS, *LIST_KEYS))}")
        return self

    @cached_property
    def globs(self) -> tuple[tuple[str, str], ...]:
        """(label, glob) of each key that is set."""
        keys = (*SELECTOR_KEYS, *LIST_KEYS)
        return tuple((key, glob) for key in keys if (glob := getattr(self, key)) is not None)


class Tenant(Section):
    """Who pays. The first tenant in file order with a matching selector has the workload."""

    id: TenantId
    """1 to 63 of a-z, 0-9 and -; it names the tenant in files, URLs and statements."""
    name: Text = ""
    """Name for people; left out: the id."""
    parent: Text | None = None
    """Id of the tenant above; roll-ups stand beside and are never billed."""
    match: tuple[Selector, ...] = ()
    """Any one of the selectors must match."""
    budget: Budget | None = None
    """What it means to spend in a month."""
    cost_center: Text | None = None
    """Carried to statements and FOCUS."""
    tags: Mapping[str, str] = Field(default_factory=dict)
    """Carried to statements and FOCUS."""
    quota: Quota | None = None
    """What goes beyond it is class overflow."""
    discounts: tuple[Discount, ...] = ()
    """What is taken off its prices; the first entry that matches model, class and time counts."""
    commitment: tuple[Commitment, ...] = ()
    """What it has agreed to pay at least in a month; the shortfall is a line of its own."""
    currency: Currency | None = None
    """Currency of its statements, by `exchange`; left out: that of the ledger."""
    retired: Day | None = None
    """The day from which it is no longer in use; its rows stay."""

    @property
    def discounts_in_force(self) -> tuple[Discount, ...]:
        """The discounts, each cut to where none for the same that was recorded later replaces it."""
        return recorded.counting(self.discounts, lambda d: (d.model.casefold(), frozenset(d.classes)))

    @property
    def commitment_in_force(self) -> tuple[Commitment, ...]:
        """The commitments, each cut to where none that was recorded later replaces it; what is left adds up."""
        return recorded.adding_up(self.commitment, lambda _: None)

    @model_validator(mode="before")
    @classmethod
    def _named_by_default(cls, values: Any) -> Any:
        if isinstance(values, dict) and "name" not in values and isinstance(values.get("id"), str):
            return {**values, "name": values["id"]}
        return values


class Sharing(Section):
    """Devices shared by time slicing or MPS."""

    split: Literal["even", "memory", "utilization"] = "even"
    """By slices held; memory and utilization are estimates and say so."""


class Mig(Section):
    """MIG instances as parts of their card."""

    weight: Literal["max", "compute", "memory"] = "max"
    """max(compute, memory) scaled to one card, or one of the two."""


class Attribution(Section):
    """How labels of samples become leases."""

    bridge: Duration = timedelta(minutes=30)
    """Longest hole in the samples bridged for an owner known by name alone."""
    flicker: Duration = timedelta(minutes=5)
    """Longest run of unlabelled samples bridged between two samples of one owner."""
    exporter_pods: tuple[Glob, ...] = ("*dcgm-exporter*", "*gpu-exporter*", "*gpuledger-exporter*")
    """Pods that hold nothing: the exporters' own."""


class Closing(Section):
    """What a period must show before it is closed, and who issues its statements."""

    issuer: Text | None = None
    """Who issues the statements, as they name it."""
    coverage: Amount = Decimal(0)
    """Least share of the held time with a valid sample, 0 to 1."""
    findings: tuple[Text, ...] = ()
    """Codes of findings that hold a period open, beside `unknown_price`, which always does."""
    grace: Duration = timedelta(0)
    """How long after its end a period waits for late data."""
    approval: bool = False
    """Whether a month that one person proposes is closed only once another one approves it."""
    formats: tuple[Literal["pdf", "xlsx"], ...] = ("pdf",)
    """Beside JSON and CSV, the formats whose very bytes are kept: pdf, xlsx."""

    @model_validator(mode="after")
    def _is_a_share(self) -> Self:
        if self.coverage > 1:
            raise fault(f"a coverage of {self.coverage} is above 1", 'write a share, such as "0.95"', key="coverage")
        unknown = [code for code in self.findings if code not in FINDING_CODES]
        if unknown:
            codes = ", ".join(FINDING_CODES)
            raise fault(f"no finding has the code {unknown[0]!r}", f"write one of {codes}", key="findings")
        return self


class Window(Section):
    """What `replay` reports on, where it is no calendar period."""

    from_: Instant = Field(alias="from")
    """First instant."""
    to: Instant
    """Up to, and without, this instant."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.to <= self.from_:
            raise fault("`to` is not after `from`", "write a later time", key="to")
        return self


class Engine(Section):
    """Where samples are rolled up."""

    spark: SparkUrl | None = None
    """Spark Connect server, as `sc://host:port`; its workers have gpuledger and see the ledger's folder."""


class Config(Section):
    """A whole gpuledger.yaml."""

    currency: Currency
    """ISO 4217 code of every amount."""
    timezone: Zone = UTC_ZONE
    """IANA zone that days, months, statements and times without an offset follow."""
    scrape_interval: Duration | None = None
    """Spacing of the samples; left out: each series' median spacing in its UTC day."""
    sources: tuple[Source, ...] = ()
    """Where measurements and records come from."""
    tenants: tuple[Tenant, ...] = ()
    """Who pays."""
    rates: tuple[Rate, ...] = ()
    """Prices per GPU-hour."""
    reservations: tuple[Reservation, ...] = ()
    """GPUs paid for whether used or not."""
    spot: tuple[Selector, ...] = ()
    """Which workloads are class spot: selectors, as in `tenants.match`."""
    idle: Idle = Idle()
    """Who pays for capacity that nobody holds."""
    sharing: Sharing = Sharing()
    """Devices shared by time slicing or MPS."""
    mig: Mig = Mig()
    """MIG instances as parts of their card."""
    attribution: Attribution = Attribution()
    """How labels of samples become leases."""
    energy: Energy = Energy()
    """What energy costs and emits."""
    overheads: tuple[Overhead, ...] = ()
    """Fixed monthly costs: pools, each with what drives it."""
    sla: Sla = Sla()
    """What is given back."""
    exchange: tuple[Exchange, ...] = ()
    """Stamped rates of other currencies that statements are in."""
    closing: Closing = Closing()
    """What a period must show before it is closed."""
    period: Text | None = None
    """What `replay` reports on: a month, a day or a year, such as 2026-11."""
    window: Window | None = None
    """The same as two times; only one of the two."""
    reclaim: tuple[ReclaimPolicy, ...] = ()
    """Rules by which idle GPUs are spoken of, beside and in place of those built in."""
    alerts: Alerts = Alerts()
    """From which amounts the alerts speak."""
    access: Access = Access()
    """Who may see what in the app."""
    engine: Engine = Engine()
    """Where samples are rolled up; left out: here."""
    ledger_folder: Text = Field("ledger", alias="ledger")
    """Folder of the ledger, relative to this file."""

    _path: Path = PrivateAttr(default=Path("gpuledger.yaml"))

    def model_post_init(self, context: Any, /) -> None:
        """Remember the file that this is."""
        if context:
            self._path = context["path"].absolute()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        rules.check(self)
        return self

    @property
    def path(self) -> Path:
        """The file, absolute."""
        return self._path

    @property
    def ledger(self) -> Path:
        """Folder of the ledger, absolute."""
        return self._path.parent.joinpath(self.ledger_folder).absolute()

    @property
    def reporting_period(self) -> Period | None:
        """What `period` or `window` say, in UTC; None: neither is set."""
        if self.window is not None:
            return Period(self.window.from_, self.window.to)
        return None if self.period is None else parse_period(self.period, self.timezone)

    @cached_property
    def rates_in_force(self) -> tuple[Rate, ...]:
        """The rate card, each entry cut to where none that was recorded later replaces it; the first match wins."""
        return recorded.counting(self.rates, about_rate)

    @cached_property
    def exchange_in_force(self) -> tuple[Exchange, ...]:
        """The rates of exchange, the same way."""
        return recorded.counting(self.exchange, lambda entry: entry.currency)

    @cached_property
    def overheads_in_force(self) -> tuple[Overhead, ...]:
        """The overheads, each cut to where none of its name that was recorded later replaces it."""
        return recorded.adding_up(self.overheads, lambda pool: pool.name)

    def as_recorded_on(self, at: datetime) -> Config:
        """Return the configuration without the prices that were recorded later.

        Raises:
            ConfigError: a reservation or a tenant's currency has no price without them.
        """
        tenants = tuple(
            tenant.model_copy(
                update={
                    "discounts": recorded.known_at(tenant.discounts, at),
                    "commitment": recorded.known_at(tenant.commitment, at),
                }
            )
            for tenant in self.tenants
        )
        priced = ("rates", "exchange", "overheads")
        known = {name: recorded.known_at(getattr(self, name), at) for name in priced}
        then = self.model_copy(update={**known, "tenants": tenants})
        for cached in ("config_hash", *(f"{name}_in_force" for name in priced)):
            then.__dict__.pop(cached, None)
        objections = rules.faults(then)
        if objections:
            _, what, mend = objections[0]
            raise ConfigError(f"{self.path.name} as recorded on {at:%Y-%m-%d %H:%M}Z", what, mend)
        return then

    @cached_property
    def config_hash(self) -> str:
        """SHA-256 of what the file means for the ledger: comments, order, defaults, what books nothing don't count."""
        aside = {"access", "alerts", "engine", "reclaim"}
        meaning = self.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=aside)
        return hashlib.sha256(json.dumps(meaning, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def reservation_rate(config: Config, reservation: Reservation, at: datetime) -> Decimal:
    """Price per GPU-hour of a reservation at an instant of it: its own, else the rate card's.

    Raises:
        ConfigError: no rate covers that instant; `load` has checked every instant of the reservation.
    """
    if reservation.rate is not None:
        return reservation.rate
    for rate in config.rates_in_force:
        if rate.holds(at) and speaks_for(rate, reservation):
            return rate.price("reserved")
    raise ConfigError(f"reservation {reservation.id}", f"no rate at {at:%Y-%m-%dT%H:%M:%SZ}", "add one to rates")


def about_rate(rate: Rate) -> str:
    """What a price is about: entries with the same pattern of models replace each other."""
    return rate.model.casefold()


def speaks_for(rate: Rate, reservation: Reservation) -> bool:
    """Whether a rate's glob matches the text of the reservation's own glob."""
    return rules.speaks_for(rate.model, reservation.model)


def _zone_of(content: dict[str, Any]) -> ZoneInfo:
    # Needed before the models are made; a wrong zone is reported by its own field.
    name = content.get("timezone")
    return ZoneInfo(name) if isinstance(name, str) and name in zone_names() else UTC_ZONE
