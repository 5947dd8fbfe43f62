"""What every section of the configuration has in common."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipelines.config.scalars import Instant, fault


class Section(BaseModel):
    """A mapping of the file: frozen, no key unknown. The docstring below a field is its entry in the reference."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, use_attribute_docstrings=True)


class Dated(Section):
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


class Recorded(Dated):
    """Something dated twice: when it holds, and when it was recorded."""

    recorded: Instant | None = None
    """When it was written down; of two about the same that hold, the later one counts. Left out: from the start."""
