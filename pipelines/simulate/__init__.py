"""A deterministic simulated fleet with its ground truth, written as a replay directory."""

from __future__ import annotations

from pipelines.simulate.behaviours.scenes import simulate_jobs
from pipelines.simulate.write import simulate

__all__ = ["simulate", "simulate_jobs"]
