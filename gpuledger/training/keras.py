"""Keras and TensorFlow: a callback for ``model.fit``.

``fit`` fetches batches inside its compiled step, where no callback sees the waiting: data wait stays unknown. A loop
of your own has it: ``for batch in meter.batches(dataset)``.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from exporter.errors import UsageError
from gpuledger.training.meter import StepMeter


def callback(meter: StepMeter, *, samples: float | None = None, tokens: float | None = None) -> Any:
    """Return a ``keras.callbacks.Callback`` that counts steps and epochs.

    Args:
        samples, tokens: of one batch of this rank.

    Raises:
        UsageError: neither Keras nor TensorFlow is there.
    """

    class Meter(_keras().callbacks.Callback):  # type: ignore[misc]  # Keras is no dependency
        """Tells the meter of batches and epochs."""

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002  Keras's signature
            """Begin a step."""
            meter.step_begins()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
            """Count it."""
            meter.step_ends(samples=samples, tokens=tokens)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
            """Count an epoch."""
            meter.epoch()

    return Meter()


def _keras() -> Any:
    """Return the Keras that the program uses: the one that it has loaded."""
    for name in ("keras", "tensorflow.keras", "tensorflow"):
        module = sys.modules.get(name)
        if module is not None:
            return module.keras if name == "tensorflow" else module
    try:
        return importlib.import_module("keras")
    except ModuleNotFoundError:
        raise UsageError("gpuledger.training.keras: Keras is not installed: pip install keras, or tensorflow") from None
