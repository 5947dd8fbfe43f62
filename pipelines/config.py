"""The one configuration: gpuledger.yaml as frozen models, checked as a whole.

Every time is an aware UTC datetime, every amount a `Decimal`, every period and zone known to exist.
The docstring below a field is its entry in docs/configuration.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, available_timezones

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, ValidationInfo, model_validator

from exporter.errors import ConfigError
from pipelines import config_faults, config_rules
from pipelines.config_scalars import (
    UTC_ZONE,
    Amount,
    Count,
    Currency,
    Day,
    Duration,
    Instant,
    Names,
    PositiveCount,
    TenantId,
    Text,
    Zone,
    fault,
)
from pipelines.config_yaml import read_yaml
from pipelines.periods import Period, parse_period
from pipelines.selectors import SELECTOR_KEYS

UsageClass = Literal["reserved", "on_demand", "overflow", "spot"]
Kind = Literal["prometheus", "metrics", "samples", "sacct", "allocations", "inventory"]


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
        return Config.model_validate(content, context=context)
    except ValidationError as error:
        raise config_faults.config_error(error, Config, path, lines) from None


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, use_attribute_docstrings=True)


class _Dated(_Model):
    """Something that holds over [from, to)."""

    from_: Instant | None = Field(None, alias="from")
    """From this time on; left out: from ever."""
    to: Instant | None = None
    """Up to, and without, this time; left out: for ever."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.from_ is not None and self.to is not None and self.to <= self.from_:
            raise fault("`to` is not after `from`", "write a later time, or leave `to` out", key="to")
        return self

    def holds(self, at: datetime) -> bool:
        """Whether `at` lies in [from, to)."""
        return (self.from_ is None or self.from_ <= at) and (self.to is None or at < self.to)


class Selector(_Dated):
    """All of its globs must match; a label that a workload doesn't have matches nothing, not even ``*``."""

    cluster: Text | None = None
    """Cluster name, as the source's `cluster` gives it."""
    node: Text | None = None
    """Host name."""
    namespace: Text | None = None
    """Kubernetes namespace."""
    pod: Text | None = None
    """Kubernetes pod name."""
    slurm_account: Text | None = None
    """Slurm account."""
    slurm_partition: Text | None = None
    """Slurm partition."""
    slurm_qos: Text | None = None
    """Slurm QOS."""
    slurm_user: Text | None = None
    """Slurm user."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        for key in SELECTOR_KEYS:
            if key in self.model_fields_set and getattr(self, key) is None:
                raise fault("an empty value", "write a glob, or take the key out", key=key)
        if not self.globs:
            raise fault("no key to match by", f"write one of {', '.join(SELECTOR_KEYS)}")
        return self

    @cached_property
    def globs(self) -> tuple[tuple[str, str], ...]:
        """(label, glob) of each key that is set."""
        return tuple((key, glob) for key in SELECTOR_KEYS if (glob := getattr(self, key)) is not None)


_SHARED_KEYS: Final = frozenset({"cluster"})
_KEYS_OF: Final[Mapping[Kind, frozenset[str]]] = {
    "prometheus": frozenset(
        {
            *("headers_env", "bearer_token_env", "bearer_token_file", "username", "password_env", "password_file"),
            *("ca_file", "cert_file", "key_file"),
        }
    ),
    "metrics": frozenset({"at"}),
    "samples": frozenset(),
    "sacct": frozenset({"fields", "timezone"}),
    "allocations": frozenset({"timezone"}),
    "inventory": frozenset({"timezone"}),
}


class Source(_Model):
    """Where measurements or records come from; one of the first six keys says what it is."""

    prometheus: Text | None = None
    """URL of a Prometheus, or of anything that speaks its HTTP API."""
    metrics: Text | None = None
    """Exposition text: `.prom` (timestamps in ms) or `.om` (OpenMetrics, in s), also `.gz`."""
    samples: Text | None = None
    """Parquet of the wide sample lake, as `gpuledger simulate` and recordings write it."""
    sacct: Text | None = None
    """Output of `sacct -P`, with its header line unless `fields` names the columns."""
    allocations: Text | None = None
    """CSV: start,end,gpus,device,model,tenant,workload,class."""
    inventory: Text | None = None
    """CSV: node,device,model,gpus,slots,owner,from,to."""
    cluster: Text | None = None
    """Cluster of what it yields; "default" where left out, and any cluster for allocations and inventory."""
    at: Instant | None = None
    """metrics: the time of samples that have none of their own."""
    fields: Names | None = None
    """sacct: columns of a file without a header line."""
    timezone: Zone | None = None
    """sacct, allocations, inventory: zone of its local times, where it isn't the file's."""
    headers_env: Mapping[str, Text] = Field(default_factory=dict)
    """prometheus: HTTP header → environment variable that holds its value."""
    bearer_token_env: Text | None = None
    """prometheus: environment variable that holds the bearer token."""
    bearer_token_file: Text | None = None
    """prometheus: file that holds the bearer token."""
    username: Text | None = None
    """prometheus: user of basic authentication."""
    password_env: Text | None = None
    """prometheus: environment variable that holds the password."""
    password_file: Text | None = None
    """prometheus: file that holds the password."""
    ca_file: Text | None = None
    """prometheus: certificates that its server is checked against."""
    cert_file: Text | None = None
    """prometheus: client certificate."""
    key_file: Text | None = None
    """prometheus: key of the client certificate."""

    _folder: Path = PrivateAttr(default=Path())

    def model_post_init(self, context: Any, /) -> None:
        """Remember the folder that paths are relative to."""
        if context:
            self._folder = context["path"].absolute().parent

    @model_validator(mode="before")
    @classmethod
    def _cluster_by_default(cls, values: Any, info: ValidationInfo) -> Any:
        del info
        if isinstance(values, dict) and "cluster" not in values and not {"allocations", "inventory"} & values.keys():
            return {**values, "cluster": "default"}
        return values

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        kinds = [kind for kind in _KEYS_OF if getattr(self, kind) is not None]
        if len(kinds) != 1:
            found = " and ".join(kinds) or "none"
            raise fault(f"expected exactly one of {', '.join(_KEYS_OF)}, found {found}", "make each source one entry")
        stray = sorted(self.model_fields_set - _KEYS_OF[kinds[0]] - _SHARED_KEYS - {kinds[0]})
        if stray:
            raise fault(f"means nothing for a {kinds[0]} source", "take it out", key=stray[0])
        if self.prometheus is not None:
            self._check_address(self.prometheus)
            self._check_sign_in()
        return self

    @property
    def kind(self) -> Kind:
        """Which of the six it is."""
        return next(kind for kind in _KEYS_OF if getattr(self, kind) is not None)

    @property
    def written(self) -> str:
        """The URL or path as the file has it: a name for messages that is the same in every folder."""
        return str(getattr(self, self.kind))

    @property
    def location(self) -> str:
        """The URL, or the absolute path."""
        return self.written if self.kind == "prometheus" else str(self.path)

    @property
    def path(self) -> Path:
        """The absolute path of a file source."""
        return self.resolve(self.written)

    def resolve(self, name: str) -> Path:
        """A path of this source, relative to the configuration's folder."""
        return self._folder.joinpath(name).absolute()

    def _check_address(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            good = parts.scheme in {"http", "https"} and bool(parts.hostname)
            secret = parts.username is not None
            _ = parts.port
        except ValueError:
            good, secret = False, False
        if secret:
            raise fault("the URL holds a user", "use username with password_env or password_file", key="prometheus")
        if not good:
            raise fault(f"{url!r} is no URL", "write it as http://HOST:9090", key="prometheus")

    def _check_sign_in(self) -> None:
        for one, other in (
            ("bearer_token_env", "bearer_token_file"),
            ("password_env", "password_file"),
            ("bearer_token_env", "username"),
            ("bearer_token_file", "username"),
        ):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise fault(f"stands beside {one}, and only one can be used", "keep one of them", key=other)
        has_password = self.password_env is not None or self.password_file is not None
        if has_password and self.username is None:
            raise fault("a password without `username`", "add username", key="username")
        if self.username is not None and not has_password:
            raise fault("a user without a password", "add password_env or password_file", key="username")
        if (self.cert_file is None) != (self.key_file is None):
            raise fault("a client certificate needs both cert_file and key_file", "add the other", key="cert_file")


class Budget(_Model):
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


class Quota(_Model):
    """What a tenant holds beyond it is class overflow."""

    gpus: Count | None = None
    """GPUs at one time."""


class Tenant(_Model):
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
    retired: Day | None = None
    """The day from which it is no longer in use; its rows stay."""

    @model_validator(mode="before")
    @classmethod
    def _named_by_default(cls, values: Any) -> Any:
        if isinstance(values, dict) and "name" not in values and isinstance(values.get("id"), str):
            return {**values, "name": values["id"]}
        return values


class Rate(_Dated):
    """Prices per GPU-hour. The first entry that matches model and time wins."""

    model: Text
    """Glob over the model, ignoring case."""
    on_demand: Amount
    """Price of class on_demand, and of each class without one of its own."""
    reserved: Amount | None = None
    """Price of reserved GPUs, used or not."""
    overflow: Amount | None = None
    """Price beyond quota or reservation."""
    spot: Amount | None = None
    """Price of what `spot` selects."""

    def price(self, class_: str) -> Decimal:
        """Price per GPU-hour of a class, falling back to on demand."""
        own: Decimal | None = {"reserved": self.reserved, "overflow": self.overflow, "spot": self.spot}.get(class_)
        return self.on_demand if own is None else own


class Reservation(_Model):
    """GPUs that a tenant pays for over [from, to), used or not."""

    id: Text
    """Its name, once in the file."""
    tenant: Text
    """Id of the tenant that pays."""
    model: Text = "*"
    """Glob over the models that it takes, ignoring case."""
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


class Idle(_Model):
    """Who pays for capacity that nobody holds."""

    policy: Literal["platform", "proportional", "even", "owner"] = "platform"
    """platform: nobody; proportional: by usage; even: in equal parts; owner: who owns the dedicated device."""


class Sharing(_Model):
    """Devices shared by time slicing or MPS."""

    split: Literal["even", "memory", "utilization"] = "even"
    """By slices held; memory and utilization are estimates and say so."""


class Mig(_Model):
    """MIG instances as parts of their card."""

    weight: Literal["max", "compute", "memory"] = "max"
    """max(compute, memory) scaled to one card, or one of the two."""


class Attribution(_Model):
    """How labels of samples become leases."""

    bridge: Duration = timedelta(minutes=30)
    """Longest hole in the samples bridged for an owner known by name alone."""
    flicker: Duration = timedelta(minutes=5)
    """Longest run of unlabelled samples bridged between two samples of one owner."""
    exporter_pods: tuple[Text, ...] = ("*dcgm-exporter*", "*gpu-exporter*", "*gpuledger-exporter*")
    """Globs of pods that hold nothing: the exporters' own."""


class Energy(_Model):
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


class Overhead(_Model):
    """A fixed monthly cost shared by all tenants."""

    name: Text
    """Its name, once in the file."""
    monthly: Amount
    """Money per local month; a part of a month costs its part."""
    split: Literal["even", "proportional"] = "even"
    """In equal parts, or by usage."""


class Sla(_Model):
    """What is given back."""

    credit_downtime: bool = False
    """Whether reserved GPUs that were down are credited at the reservation's rate."""


class Window(_Model):
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


class Config(_Model):
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
    """Which workloads are class spot."""
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
    """Fixed monthly costs."""
    sla: Sla = Sla()
    """What is given back."""
    period: Text | None = None
    """What `replay` reports on: a month, a day or a year, such as 2026-11."""
    window: Window | None = None
    """The same as two times; only one of the two."""
    ledger_folder: Text = Field("ledger", alias="ledger")
    """Folder of the ledger, relative to this file."""

    _path: Path = PrivateAttr(default=Path("gpuledger.yaml"))

    def model_post_init(self, context: Any, /) -> None:
        """Remember the file that this is."""
        if context:
            self._path = context["path"].absolute()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        config_rules.check(self)
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
    def config_hash(self) -> str:
        """SHA-256 of what the file means: comments, the order of keys and defaults spelled out don't count."""
        meaning = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return hashlib.sha256(json.dumps(meaning, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def reservation_rate(config: Config, reservation: Reservation, at: datetime) -> Decimal:
    """Price per GPU-hour of a reservation at an instant of it: its own, else the rate card's.

    Raises:
        ConfigError: no rate covers that instant; `load` has checked every instant of the reservation.
    """
    if reservation.rate is not None:
        return reservation.rate
    for rate in config.rates:
        if rate.holds(at) and speaks_for(rate, reservation):
            return rate.price("reserved")
    raise ConfigError(f"reservation {reservation.id}", f"no rate at {at:%Y-%m-%dT%H:%M:%SZ}", "add one to rates")


def speaks_for(rate: Rate, reservation: Reservation) -> bool:
    """Whether a rate's glob matches the text of the reservation's own glob."""
    return config_rules.speaks_for(rate.model, reservation.model)


def _zone_of(content: dict[str, Any]) -> ZoneInfo:
    # Needed before the models are made; a wrong zone is reported by its own field.
    name = content.get("timezone")
    return ZoneInfo(name) if isinstance(name, str) and name in available_timezones() else UTC_ZONE
