"""The metrics that a training loop exposes of itself: names, kinds and help, for who writes them and who reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class TrainingMetric:
    """One metric of `gpuledger.training`, in base units.

    Attributes:
        key: what the meter and the pipeline call it.
        help: one line, as exposed.
    """

    key: str
    kind: Literal["counter", "gauge"]
    help: str

    @property
    def name(self) -> str:
        """The exposed name; a counter's ends in ``_total``."""
        return f"{PREFIX}{self.key}" + ("_total" if self.kind == "counter" else "")


PREFIX: Final = "gpuledger_training_"

TRAINING_METRICS: Final[tuple[TrainingMetric, ...]] = (
    TrainingMetric("steps", "counter", "Optimizer steps done by this rank."),
    TrainingMetric("samples", "counter", "Samples that this rank worked through."),
    TrainingMetric("tokens", "counter", "Tokens that this rank worked through."),
    TrainingMetric("epochs", "counter", "Passes over the data that this rank finished."),
    TrainingMetric("step_seconds", "counter", "Time in steps, without waiting for data."),
    TrainingMetric("data_wait_seconds", "counter", "Time in which the loop waited for the loader's next batch."),
    TrainingMetric(
        "communication_seconds", "counter", "Time with a collective in flight, whether or not work overlapped it."
    ),
    TrainingMetric("checkpoint_seconds", "counter", "Time in which the loop stood still to write a checkpoint."),
    TrainingMetric("floating_point_operations", "counter", "Floating-point operations that the model asked for."),
    TrainingMetric("mfu_ratio", "gauge", "Model FLOP/s of the last minutes, of the card's dense peak."),
    TrainingMetric("peak_flops", "gauge", "Dense peak of this rank's cards, FLOP/s, at the precision in use."),
    TrainingMetric("world_size", "gauge", "Ranks of the job."),
    TrainingMetric("start_time_seconds", "gauge", "When the meter was made, Unix time."),
    TrainingMetric("last_step_time_seconds", "gauge", "When the last step ended, Unix time."),
)
"""A metric without a value is not exposed: what nobody measured is unknown, not 0."""

TRAINING_BY_KEY: Final = {metric.key: metric for metric in TRAINING_METRICS}
