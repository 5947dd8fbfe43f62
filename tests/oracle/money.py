"""Classes, prices and rounding: pure functions of exact numbers.

Readings
  Y1. At an instant all leases of a tenant first take from its reservations, in order; the quota's rest is what they
      leave of it, then dealt out in the same order. Rejected: one pass, in which an early unreserved lease takes quota
      that a later reserved one counts towards.
  Y2. Reserved GPUs that count towards the quota are those in use. Rejected: the reservation's whole size.
  Y3. A class that a source gives: `reserved` takes from reservations while there is room and stays reserved beyond
      (billed as usage at the reserved rate); `on_demand` counts towards the quota; `overflow` and `spot` use nothing.
  Y4. Without a quota what a lease has beyond the reservations is overflow if any reservation of the tenant that is
      active then matches its model.
  Y5. Largest remainder shares the rounded total by weight (total × weight ÷ sum, floored, rest by remainder, ties by
      id); what stays unbilled (the unattributed) comes last among ties.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tests.oracle.ledger import Holding
from tests.oracle.settings import Rate, Reservation, Selector, Tenant, model_matches

DIGITS = {
    **dict.fromkeys(("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND"), 0),
    **dict.fromkeys(("VUV", "XAF", "XOF", "XPF"), 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
    **dict.fromkeys(("CLF", "UYW"), 4),
}


@dataclass(frozen=True)
class Portion:
    """A part of a holding in one class; `reservation` where one covers it."""

    holding: Holding
    lease_class: str
    gpus: Fraction
    reservation: Reservation | None = None


def to_units(amount: Fraction, currency: str) -> int:
    """An exact amount in whole minor units, half away from zero."""
    scaled = abs(amount) * 10 ** DIGITS.get(currency, 2)
    units = int(scaled + Fraction(1, 2))
    return -units if amount < 0 else units


def show(units: int, currency: str) -> str:
    """Minor units as the report's text; zero has no sign."""
    digits = DIGITS.get(currency, 2)
    whole, part = divmod(abs(units), 10**digits)
    sign = "-" if units < 0 else ""
    return f"{sign}{whole}.{part:0{digits}}" if digits else f"{sign}{whole}"


def largest_remainder(total: int, shares: Mapping[str, Fraction]) -> dict[str, int]:
    """`total` minor units over ids by weight; they add up to it exactly. Empty where nothing weighs anything."""
    whole = sum(shares.values(), Fraction(0))
    if not whole:
        return {}
    exact = {name: abs(total) * share / whole for name, share in shares.items()}
    parts = {name: int(value) for name, value in exact.items()}
    order = sorted(exact, key=lambda name: (parts[name] - exact[name], not name, name))
    for name in order[: abs(total) - sum(parts.values())]:
        parts[name] += 1
    return {name: -part if total < 0 else part for name, part in parts.items()}


def rate_at(rates: tuple[Rate, ...], model: str, at: int) -> Rate | None:
    """The first entry that matches model and time."""
    return next((r for r in rates if r.start <= at < r.end and model_matches(r.model, model)), None)


def price_at(rates: tuple[Rate, ...], model: str, lease_class: str, at: int) -> Fraction | None:
    rate = rate_at(rates, model, at)
    return rate.price(lease_class) if rate else None


def reservation_price(rates: tuple[Rate, ...], reservation: Reservation, at: int) -> Fraction | None:
    """Its own rate, else the first entry's whose pattern matches the reservation's model text."""
    return reservation.rate if reservation.rate is not None else price_at(rates, reservation.model, "reserved", at)


def tenant_of(holding: Holding, tenants: tuple[Tenant, ...], at: int) -> str | None:
    """The tenant that a source names if there is one of that id, else the first with a matching selector."""
    if holding.run and holding.run.tenant:
        return holding.run.tenant if any(t.id == holding.run.tenant for t in tenants) else None
    return next((t.id for t in tenants if any(s.matches(holding.labels, at) for s in t.match)), None)


def classify(
    tenant: Tenant,
    holdings: list[Holding],
    reservations: tuple[Reservation, ...],
    spot: tuple[Selector, ...],
    at: int,
) -> list[Portion]:
    """One tenant's holdings at one instant, each split over its classes."""
    active = [r for r in reservations if r.tenant == tenant.id and r.start <= at < r.end]
    room = {r.id: r.gpus for r in active}
    portions: list[Portion] = []
    left: list[tuple[Holding, str | None, Fraction]] = []
    for holding in sorted(holdings, key=lambda h: (h.start, h.workload, h.device_id)):
        given = holding.run.given_class if holding.run else None
        if given == "spot" or (given is None and any(s.matches(holding.labels, at) for s in spot)):
            portions.append(Portion(holding, "spot", holding.amount))
            continue
        rest = holding.amount
        if given in (None, "reserved"):
            for reservation in active:
                if model_matches(reservation.model, holding.model) and (part := min(rest, room[reservation.id])):
                    room[reservation.id] -= part
                    rest -= part
                    portions.append(Portion(holding, "reserved", part, reservation))
        if rest and given == "reserved":
            portions.append(Portion(holding, "reserved", rest))
        elif rest:
            left.append((holding, given, rest))
    return portions + _beyond_reservations(tenant, left, active, portions)


def _beyond_reservations(
    tenant: Tenant,
    left: list[tuple[Holding, str | None, Fraction]],
    active: list[Reservation],
    reserved: list[Portion],
) -> list[Portion]:
    portions: list[Portion] = []
    quota_left = Fraction(0)
    if tenant.quota is not None:
        quota_left = max(Fraction(0), tenant.quota - sum(p.gpus for p in reserved if p.lease_class == "reserved"))
    for holding, given, rest in left:
        if given == "overflow":
            portions.append(Portion(holding, "overflow", rest))
            continue
        if tenant.quota is not None:
            fits = min(rest, quota_left)
            quota_left -= fits
        else:
            fits = Fraction(0) if any(model_matches(r.model, holding.model) for r in active) else rest
        if given == "on_demand":
            fits = rest
        portions += [
            Portion(holding, name, part) for name, part in (("on_demand", fits), ("overflow", rest - fits)) if part
        ]
    return portions
