"""The configuration as the oracle needs it: text in, exact numbers and UTC milliseconds out. It validates nothing.

Readings
  C1. The keys shown in the contract's example are the defaults where it says so (`platform`, `even`, `max`, 30m, 5m,
      charge false); `sla.credit_downtime` is on unless it is turned off. Rejected: off by default.
  C2. Selector globs mind case, model globs don't. Rejected: both ignore case.
  C3. PUE is 1 where none is given; without `carbon_g_per_kwh` a tenant's `co2e_kg` is null. Rejected: 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import yaml

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = 3_600_000
FOREVER = 10**15
EXPORTER_PODS = ("*dcgm-exporter*", "*gpu-exporter*", "*gpuledger-exporter*")
CLASSES = ("reserved", "on_demand", "overflow", "spot")


@dataclass(frozen=True)
class Selector:
    """All of `globs` must match; the entry counts at instants in [start, end)."""

    globs: Mapping[str, str]
    start: int
    end: int

    def matches(self, labels: Mapping[str, str], at: int) -> bool:
        if not self.start <= at < self.end:
            return False
        return all(labels.get(key) and fnmatchcase(labels[key], glob) for key, glob in self.globs.items())


@dataclass(frozen=True)
class Tenant:
    id: str
    match: tuple[Selector, ...]
    quota: Fraction | None
    budgeted: bool


@dataclass(frozen=True)
class Rate:
    model: str
    start: int
    end: int
    prices: Mapping[str, Fraction]

    def price(self, lease_class: str) -> Fraction:
        return self.prices.get(lease_class, self.prices["on_demand"])


@dataclass(frozen=True)
class Reservation:
    id: str
    tenant: str
    model: str
    gpus: Fraction
    start: int
    end: int
    rate: Fraction | None


@dataclass(frozen=True)
class Overhead:
    name: str
    monthly: Fraction
    split: str


@dataclass(frozen=True)
class Settings:
    directory: Path
    currency: str
    zone: ZoneInfo
    scrape_interval: int | None
    sources: tuple[Mapping[str, str], ...]
    tenants: tuple[Tenant, ...]
    rates: tuple[Rate, ...]
    reservations: tuple[Reservation, ...]
    spot: tuple[Selector, ...]
    idle_policy: str
    mig_weight: str
    bridge: int
    flicker: int
    exporter_pods: tuple[str, ...]
    energy_price: Fraction | None
    pue: Fraction
    carbon: Fraction | None
    energy_charged: bool
    overheads: tuple[Overhead, ...]
    credit_downtime: bool
    window: tuple[int, int] | None


def load(directory: Path) -> Settings:
    """Reads `gpuledger.yaml` of a replay directory; every scalar is read as text, so money stays exact."""
    raw: Any = yaml.load((directory / "gpuledger.yaml").read_text(), Loader=yaml.BaseLoader)
    zone = ZoneInfo(raw.get("timezone", "UTC"))
    attribution, energy = raw.get("attribution") or {}, raw.get("energy") or {}
    split = (raw.get("sharing") or {}).get("split", "even")
    if split != "even":
        raise NotImplementedError(f"sharing.split: {split} is outside what the oracle answers")

    def span(entry: Mapping[str, str]) -> tuple[int, int]:
        start, end = entry.get("from"), entry.get("to")
        return (moment(start, zone) if start else -FOREVER, moment(end, zone) if end else FOREVER)

    def selector(entry: Mapping[str, str]) -> Selector:
        return Selector({k: v for k, v in entry.items() if k not in ("from", "to")}, *span(entry))

    def rate(entry: Mapping[str, str]) -> Rate:
        return Rate(entry["model"], *span(entry), {c: Fraction(entry[c]) for c in CLASSES if c in entry})

    def reservation(entry: Mapping[str, str]) -> Reservation:
        own = Fraction(entry["rate"]) if entry.get("rate") else None
        return Reservation(entry["id"], entry["tenant"], entry["model"], Fraction(entry["gpus"]), *span(entry), own)

    def tenant(entry: Mapping[str, Any]) -> Tenant:
        quota = (entry.get("quota") or {}).get("gpus")
        match = tuple(selector(s) for s in entry.get("match") or [])
        return Tenant(entry["id"], match, Fraction(quota) if quota else None, bool(entry.get("budget")))

    def optional(section: Mapping[str, str], key: str) -> Fraction | None:
        return Fraction(section[key]) if section.get(key) else None

    interval = raw.get("scrape_interval")
    return Settings(
        directory=directory,
        currency=raw.get("currency", "USD"),
        zone=zone,
        scrape_interval=duration(interval) if interval else None,
        sources=tuple(raw.get("sources") or []),
        tenants=tuple(tenant(t) for t in raw.get("tenants") or []),
        rates=tuple(rate(r) for r in raw.get("rates") or []),
        reservations=tuple(reservation(r) for r in raw.get("reservations") or []),
        spot=tuple(selector(s) for s in raw.get("spot") or []),
        idle_policy=(raw.get("idle") or {}).get("policy", "platform"),
        mig_weight=(raw.get("mig") or {}).get("weight", "max"),
        bridge=duration(attribution.get("bridge", "30m")),
        flicker=duration(attribution.get("flicker", "5m")),
        exporter_pods=tuple(attribution.get("exporter_pods") or EXPORTER_PODS),
        energy_price=optional(energy, "price_per_kwh"),
        pue=optional(energy, "pue") or Fraction(1),
        carbon=optional(energy, "carbon_g_per_kwh"),
        energy_charged=energy.get("charge") == "true",
        overheads=tuple(
            Overhead(o["name"], Fraction(o["monthly"]), o.get("split", "even")) for o in raw.get("overheads") or []
        ),
        credit_downtime=(raw.get("sla") or {}).get("credit_downtime", "true") == "true",
        window=_window(raw, zone),
    )


def model_matches(glob: str, model: str) -> bool:
    """Whether a rate's or a reservation's model glob takes this model."""
    return fnmatchcase(model.lower(), glob.lower())


def moment(text: str, zone: ZoneInfo, fold: int = 0) -> int:
    """ISO 8601 as UTC milliseconds; without an offset it is local to `zone`."""
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        when = when.replace(tzinfo=zone, fold=fold)
    return (when.astimezone(UTC) - EPOCH) // timedelta(milliseconds=1)


def iso(at: int) -> str:
    """UTC milliseconds as ISO 8601 with a Z."""
    when = EPOCH + timedelta(milliseconds=at)
    return when.isoformat(timespec="milliseconds" if at % 1000 else "seconds").replace("+00:00", "Z")


def local_midnight(year: int, month: int, day: int, zone: ZoneInfo) -> int:
    """UTC milliseconds at which a local day begins."""
    return moment(f"{year:04}-{month:02}-{day:02}", zone)


def local_months(start: int, end: int, zone: ZoneInfo) -> list[tuple[int, int]]:
    """The local months that [start, end) touches, each as [from, to) in UTC milliseconds."""
    first = (EPOCH + timedelta(milliseconds=start)).astimezone(zone)
    year, month, months = first.year, first.month, []
    while (begin := local_midnight(year, month, 1, zone)) < end:
        year, month = (year + 1, 1) if month == 12 else (year, month + 1)
        months.append((begin, local_midnight(year, month, 1, zone)))
    return months


def duration(text: str) -> int:
    """`30m`, `1h30m`, `15s`, `500ms` in milliseconds."""
    unit = {"ms": 1, "s": 1000, "m": 60_000, "h": HOUR, "d": 24 * HOUR}
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text)
    return int(sum(Fraction(number) * unit[name] for number, name in parts))


def _window(raw: Mapping[str, Any], zone: ZoneInfo) -> tuple[int, int] | None:
    if window := raw.get("window"):
        return moment(window["from"], zone), moment(window["to"], zone)
    if not (period := raw.get("period")):
        return None
    fields = [int(part) for part in period.split("-")]
    if len(fields) == 1:
        return local_midnight(fields[0], 1, 1, zone), local_midnight(fields[0] + 1, 1, 1, zone)
    if len(fields) == 2:
        year, month = fields
        following = (year + 1, 1) if month == 12 else (year, month + 1)
        return local_midnight(year, month, 1, zone), local_midnight(*following, 1, zone)
    day = date(*fields)
    return moment(day.isoformat(), zone), moment((day + timedelta(days=1)).isoformat(), zone)
