"""Suppositions for `whatif`: other cards in the fleet, and reservations that weren't made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Final

import polars as pl

from exporter.errors import UsageError
from pipelines.config import Config, Reservation
from pipelines.metering import Metered
from pipelines.periods import Period
from pipelines.selectors import glob_matches

_REPLACED: Final = re.compile(r"(?P<glob>[^=]+)=(?P<model>[^=:]+)(?::(?P<speed>\d+(?:\.\d+)?))?", re.ASCII)
_RESERVED: Final = re.compile(
    r"(?P<tenant>[^:]+):(?P<model>[^:]+):(?P<gpus>\d+)(?::(?P<rate>\d+(?:\.\d+)?))?", re.ASCII
)


@dataclass(frozen=True)
class Replacement:
    """Cards whose model matches a glob are another model, which does the same work `speed` times as fast.

    So the same work takes 1 ÷ `speed` of the GPU-hours, and a fleet for it 1 ÷ `speed` of the cards.
    """

    glob: str
    model: str
    speed: Fraction


def parse_replacement(text: str) -> Replacement:
    """Read ``GLOB=MODEL[:SPEED]``.

    Raises:
        UsageError: it is none.
    """
    found = _REPLACED.fullmatch(text)
    if found is None or Fraction(found["speed"] or 1) == 0:
        raise UsageError(f"--fleet {text}: write GLOB=MODEL:SPEED, such as '*A100*=NVIDIA H100:2.5'")
    return Replacement(found["glob"], found["model"], Fraction(found["speed"] or 1))


def parse_reservation(text: str, config: Config, period: Period) -> Reservation:
    """Read ``TENANT:MODEL:GPUS[:RATE]``: a reservation for the whole of a period.

    Raises:
        UsageError: it is none, or there is no such tenant.
    """
    found = _RESERVED.fullmatch(text)
    if found is None or not int(found["gpus"]):
        raise UsageError(f"--reserve {text}: write TENANT:MODEL:GPUS[:RATE], such as 'vision:*H100*:8'")
    if found["tenant"] not in {t.id for t in config.tenants}:
        raise UsageError(f"--reserve {text}: the configuration has no tenant {found['tenant']}; see `gpuledger check`")
    rate = None if found["rate"] is None else Decimal(found["rate"])
    return supposed_reservation(found["tenant"], found["model"], int(found["gpus"]), period.start, period.end, rate)


def supposed_reservation(
    tenant: str, model: str, gpus: int, start: datetime, end: datetime, rate: Decimal | None
) -> Reservation:
    """Return a reservation that isn't in the configuration."""
    name = f"supposed {gpus} x {model} for {tenant}"
    return Reservation(id=name, tenant=tenant, model=model, gpus=gpus, from_=start, to=end, rate=rate)


def with_reservations(config: Config, reservations: Sequence[Reservation]) -> Config:
    """Return the configuration with more reservations, after its own.

    Raises:
        UsageError: one of them has no price.
    """
    for reservation in reservations:
        if reservation.rate is None and not any(_speaks(rate.model, reservation.model) for rate in config.rates):
            raise UsageError(
                f"{reservation.id}: no entry of rates is for it; give it a rate, as TENANT:MODEL:GPUS:RATE"
            )
    return config.model_copy(update={"reservations": (*config.reservations, *reservations)})


def with_fleet(metered: Metered, replacements: Sequence[Replacement]) -> Metered:
    """Return what would have been metered on other cards; the first replacement that matches a model counts."""
    models = set(metered.usage["model"].drop_nulls()) | set(metered.leases["model"].drop_nulls())
    chosen = {m: next((r for r in replacements if glob_matches(r.glob, m)), None) for m in models}
    names = {m: r.model for m, r in chosen.items() if r is not None}
    if not names:
        raise UsageError(f"--fleet: no model matches; there are {', '.join(sorted(models)) or 'none'}")
    factors = {m: (r.speed.denominator, r.speed.numerator) for m, r in chosen.items() if r is not None}
    model = pl.col("model")
    scaled = metered.usage.with_columns(
        weight_num=pl.col("weight_num") * model.replace_strict({m: f[0] for m, f in factors.items()}, default=1),
        weight_den=pl.col("weight_den") * model.replace_strict({m: f[1] for m, f in factors.items()}, default=1),
        energy_joules=pl.col("energy_joules")
        * model.replace_strict({m: f[0] / f[1] for m, f in factors.items()}, default=1.0),
    )
    renamed = model.replace(names)
    return Metered(
        metered.leases.with_columns(model=renamed),
        scaled.with_columns(model=renamed),
        metered.outages.with_columns(model=renamed),
        metered.findings,
        metered.span,
        metered.analysis,
    )


def _speaks(rate_model: str, model: str) -> bool:
    return rate_model.casefold() == model.casefold() or glob_matches(rate_model, model)
