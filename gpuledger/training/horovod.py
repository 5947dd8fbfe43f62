"""Horovod with PyTorch: the time in which ``optimizer.step()`` waits for its all-reduces."""

from __future__ import annotations

from typing import Any

from gpuledger.training.meter import StepMeter
from gpuledger.training.methods import wrap


def time_communication(meter: StepMeter, optimizer: Any) -> None:
    """Time ``synchronize`` of a ``hvd.DistributedOptimizer``: what of the all-reduces the backward pass didn't hide."""
    wrap(meter, optimizer, "synchronize", meter.communicating)
