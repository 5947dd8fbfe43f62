"""The section `alerts`: from which amounts of money the alerts speak."""

from __future__ import annotations

from decimal import Decimal
from typing import Self

from pydantic import model_validator

from pipelines.config.scalars import Amount, fault
from pipelines.config.section import Section


class Alerts(Section):
    """What must be wasted before somebody is told. Build the alerts again after a change."""

    idle_per_hour: Amount = Decimal(10)
    """On-demand price an hour of the GPUs that a tenant holds idle; above it the tenant is told."""
    free_per_hour: Amount = Decimal(50)
    """On-demand price an hour of one model's GPUs that nobody holds; above it the platform team is told."""
    reservation_unused: Amount = Decimal("0.5")
    """Part of a reservation that stays unused for a day; above it the tenant is told. A ratio below 1."""

    @model_validator(mode="after")
    def _can_fire(self) -> Self:
        if self.reservation_unused >= 1:
            raise fault(
                f"no reservation is more than wholly unused, and {self.reservation_unused} is not below 1",
                'write a ratio, such as "0.5"',
                key="reservation_unused",
            )
        return self
