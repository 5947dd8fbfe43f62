"""Pipeline parallelism: p stages, m micro-batches, and (p − 1) ÷ (m + p − 1) of each step in bubbles.

Schedules: GPipe (Huang et al., 2019: all forward passes, then all backward) and 1F1B (Narayanan et al., 2021). Both
have the same bubbles; they lie elsewhere in the step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from pipelines.simulate.behaviours.trace import Trace, Work


@dataclass(frozen=True)
class Pipeline:
    """One model in stages.

    Attributes:
        forward, backward: seconds of a micro-batch in a stage.
        replicas: copies of the whole pipeline that exchange gradients at the end of a step.
        waiting: a receive that spins.
    """

    stages: int
    micro_batches: int
    forward: float
    backward: float
    work: Work
    waiting: Work
    moving: Work
    exchange: float
    replicas: int = 1
    schedule: Literal["gpipe", "1f1b"] = "gpipe"
    jitter: float = 0.02

    @property
    def step_seconds(self) -> float:
        """A step, exchange included."""
        return (self.micro_batches + self.stages - 1) * (self.forward + self.backward) + self.exchange

    def run(self, seconds: float, rng: np.random.Generator) -> list[Trace]:
        """The steps of about so many seconds; ranks stage by stage, replica after replica."""
        steps = max(1, int(seconds / self.step_seconds))
        pace = rng.lognormal(0.0, self.jitter, steps)
        traces = []
        for _ in range(self.replicas):
            for stage in range(self.stages):
                phases = self._phases(stage)
                lengths = np.array([length for length, _ in phases])
                palette = np.array([work.row() for _, work in phases])
                traces.append(Trace((pace[:, None] * lengths).ravel(), np.tile(np.arange(len(phases)), steps), palette))
        return traces

    def _phases(self, stage: int) -> list[tuple[float, Work]]:
        p, m, f, b = self.stages, self.micro_batches, self.forward, self.backward
        before, after = stage * f, stage * b
        if self.schedule == "gpipe":
            return [
                (before, self.waiting),
                (m * f, self.work),
                ((p - 1 - stage) * (f + b), self.waiting),
                (m * b, self.work),
                (after, self.waiting),
                (self.exchange, self.moving),
            ]
        early = min(p - stage, m)  # forward passes before the first backward pass comes back
        return [
            (before, self.waiting),
            (early * f, self.work),
            ((p - 1 - stage) * (f + b), self.waiting),
            ((m - early) * (f + b) + early * b, self.work),
            (after, self.waiting),
            (self.exchange, self.moving),
        ]
