"""A training with Keras's ``fit``; the test starts it."""

from __future__ import annotations

import os
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

from gpuledger.training import StepMeter
from gpuledger.training import keras as adapter


def main(folder: str) -> None:
    """Train two epochs of four batches, and write the metrics to a textfile."""
    meter = StepMeter("fit", export=f"textfile:{folder}")
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    data = np.random.default_rng(1).random((64, 9))
    model.fit(
        data[:, :8], data[:, 8], batch_size=16, epochs=2, verbose=0, callbacks=[adapter.callback(meter, samples=16)]
    )


if __name__ == "__main__":
    main(sys.argv[1])
