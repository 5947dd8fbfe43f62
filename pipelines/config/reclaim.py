"""The section `reclaim`: by which rules who holds idle GPUs is spoken to."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, Self

from pydantic import model_validator

from pipelines.config.scalars import Amount, Text, fault
from pipelines.config.section import Section


class ReclaimPolicy(Section):
    """A rule: which idleness is worth a word, and which word."""

    name: Text
    """Its name; that of a built-in policy takes its place."""
    action: Literal["mail", "warn", "cancel", "none"] = "mail"
    """What the site does about it; GPULedger only says it. `none`: nothing, and the policy is left out."""
    counts: Literal["idle_gpus", "idle_now", "all_gpus"] = "idle_gpus"
    """GPU-hours of a workload's idle GPUs alone, all of its GPUs idle at this moment, or its mean over all GPUs."""
    busy_at_most: Amount = Decimal("0.005")
    """Busy ratio up to which a GPU, or with `all_gpus` the workload, counts."""
    minutes: Amount = Decimal(10)
    """Length from which an idle episode counts."""
    gpu_hours: Amount = Decimal(0)
    """GPU-hours from which a workload is named."""
    source: Text | None = None
    """Where the rule comes from."""

    @model_validator(mode="after")
    def _is_a_ratio(self) -> Self:
        if self.busy_at_most > 1:
            raise fault(f"{self.busy_at_most} is above 1", 'write a ratio, such as "0.05"', key="busy_at_most")
        return self
