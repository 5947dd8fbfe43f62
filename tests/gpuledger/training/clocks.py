"""A clock that stands until it is moved, and a meter that goes by it."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry

from gpuledger.training import StepMeter


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at

    def passes(self, seconds: float) -> None:
        self.at += seconds


def a_meter(clock: Clock, **more: Any) -> StepMeter:
    more.setdefault("environ", {"RANK": "3", "SLURM_JOB_ID": "4711", "SLURMD_NODENAME": "n1"})
    return StepMeter("run", clock=clock, now=clock, **more)


def value(meter: StepMeter | CollectorRegistry, key: str) -> float | None:
    """The one value of a metric, None where it isn't exposed."""
    registry = meter.registry if isinstance(meter, StepMeter) else meter
    found = [
        sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == f"gpuledger_training_{key}"
    ]
    assert len(found) <= 1
    return found[0] if found else None
