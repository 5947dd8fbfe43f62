"""How well tenants used what they held, as their reports say it: per lease, by the mean of its month."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from app.scope import IN_DAYS, Scope, Span

HELD: Final = f"""
    -- grain: tenant
    SELECT tenant, sum(allocated_gpu_hours), sum(observed_gpu_hours), sum(active_gpu_hours), sum(waste)
    FROM held_day WHERE {IN_DAYS} GROUP BY tenant ORDER BY tenant
"""


@dataclass(frozen=True)
class Use:
    """What a tenant held in a span.

    Attributes:
        observed: GPU-hours of leases that were ever observed; active: of those.
        waste: None: nothing of it was observed.
    """

    allocated: float = 0.0
    observed: float = 0.0
    active: float = 0.0
    waste: Decimal | None = Decimal(0)

    @property
    def utilization(self) -> float | None:
        """Active ÷ the allocated hours of the observed leases."""
        return self.active / self.observed if self.observed else None


def by_tenant(scope: Scope, span: Span) -> dict[str, Use]:
    """Return what tenants in scope held; those that held nothing aren't in it."""
    rows = scope.ask(HELD, span).iter_rows()  # of all tenants at once: the next one chosen is there already
    return {tenant: Use(*row) for tenant, *row in rows if scope.tenant in (None, tenant)}
