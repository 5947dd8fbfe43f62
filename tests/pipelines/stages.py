"""The pipeline's stages over a replay directory, with what lies between them for a test to look at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from pipelines.config import Config, load
from pipelines.intervals import Interval
from pipelines.metering import Inputs, Metered, meter
from pipelines.operations import report_on
from pipelines.rating import Rated, rate
from pipelines.sources import read
from pipelines.statement import within_of
from pipelines.tables import Finding

AS_OF = datetime(2026, 4, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Stages:
    """A directory's configuration, what was metered, and the period that is reported on."""

    config: Config
    metered: Metered
    within: Interval

    def rated(self, within: Interval | None = None) -> Rated:
        return rate(self.metered, self.config, within or self.within)

    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(report_on(self.metered, self.config, self.within, as_of=AS_OF).to_json())
        return report


def run(directory: Path) -> Stages:
    """Read, meter: what `replay` does, without a ledger between the stages."""
    config = load(directory / "gpuledger.yaml")
    batches = [read(source, config) for source in config.sources]
    inputs = Inputs(
        samples=[pl.concat([b.samples for b in batches], how="diagonal")],
        records=pl.concat([b.records for b in batches]),
        accounting=pl.concat([b.accounting for b in batches]),
        inventory=pl.concat([b.inventory for b in batches]),
    )
    return staged(config, inputs, [finding for batch in batches for finding in batch.findings])


def staged(config: Config, inputs: Inputs, findings: Sequence[Finding]) -> Stages:
    """Meter what was read."""
    period = config.reporting_period
    window = None if period is None else within_of(period)
    metered = meter(inputs, config, window=window)
    within = window or metered.span
    assert within is not None
    return Stages(config, replace(metered, findings=[*findings, *metered.findings]), within)
