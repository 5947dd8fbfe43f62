"""What tenants may hold and do hold: quotas, reservations, and how evenly the fleet is shared out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from pipelines.config import Config
from pipelines.instants import HOUR_MS, to_ms
from pipelines.rating import Charge, TenantUse


@dataclass(frozen=True)
class Use:
    """How much of an entitlement is used.

    Attributes:
        name: of the reservation; "" of the quota.
        gpus: what it entitles to.
        mean_gpus, peak_gpus: held over the time that it holds; of a reservation, what it covered.
    """

    tenant: str
    kind: str
    name: str
    gpus: int
    mean_gpus: float
    peak_gpus: float

    @property
    def utilization(self) -> float | None:
        """Mean use ÷ entitlement."""
        return self.mean_gpus / self.gpus if self.gpus else None


def entitlement_use(charges: Iterable[Charge], config: Config, start: int, end: int) -> list[Use]:
    """Return the use of every quota and reservation over [start, end) in ms.

    Spot uses neither. A quota counts what is reserved too; see docs/numbers.md.
    """
    by_tenant: dict[str, list[Charge]] = {}
    for charge in charges:
        if charge.tenant is not None and charge.class_ != "spot":
            by_tenant.setdefault(charge.tenant, []).append(charge)
    found = []
    for tenant in config.tenants:
        if tenant.quota is not None and tenant.quota.gpus is not None:
            mean, peak = _held(by_tenant.get(tenant.id, ()), start, end)
            found.append(Use(tenant.id, "quota", "", tenant.quota.gpus, mean, peak))
    for reservation in config.reservations:
        first, last = max(start, to_ms(reservation.from_)), min(end, to_ms(reservation.to))
        if first < last:
            own = [c for c in by_tenant.get(reservation.tenant, ()) if c.reservation == reservation.id]
            mean, peak = _held(own, first, last)
            found.append(Use(reservation.tenant, "reservation", reservation.id, reservation.gpus, mean, peak))
    return found


def _held(charges: Iterable[Charge], start: int, end: int) -> tuple[float, float]:
    """Return mean and peak GPUs over [start, end)."""
    changes: dict[int, Fraction] = {}
    total = Fraction(0)
    for charge in charges:
        first, last = max(charge.start, start), min(charge.end, end)
        if first < last:
            total += charge.gpus * (last - first)
            changes[first] = changes.get(first, Fraction(0)) + charge.gpus
            changes[last] = changes.get(last, Fraction(0)) - charge.gpus
    held, peak = Fraction(0), Fraction(0)
    for _, change in sorted(changes.items()):
        held += change
        peak = max(peak, held)
    return float(total / (end - start)), float(peak)


def fairness(tenants: Mapping[str, TenantUse], config: Config) -> float | None:
    """Return Jain's index of the hours held per entitled GPU; 1: all alike, 1 ÷ n: one has everything.

    A tenant's entitlement is its quota, else 1: without quotas it is the index of the hours themselves. (Jain, Chiu and
    Hawe, 1984.) None: nobody held anything.
    """
    shares = []
    for tenant in config.tenants:
        use = tenants.get(tenant.id)
        quota = tenant.quota.gpus if tenant.quota else None
        if use is not None and (quota is None or quota):
            shares.append(use.held.allocated / HOUR_MS / (quota or 1))
    squares = sum((s * s for s in shares), Fraction(0))
    return float(sum(shares, Fraction(0)) ** 2 / (len(shares) * squares)) if squares else None
