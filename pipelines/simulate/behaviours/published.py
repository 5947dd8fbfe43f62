"""Published distributions that the generators are calibrated to, as constants.

Source: AcmeTrace (Hu et al., "Characterization of Large Language Model Development in the Datacenter", NSDI 2024;
InternLM/AcmeTrace at 6d6ac9cd, CC BY 4.0): DCGM samples of two clusters of A100-SXM4-80GB, Seren and Kalos. Each table
gives the cumulative share of samples (0–1) and the value there; values in between are interpolated.
"""

from __future__ import annotations

from typing import Final

import numpy as np

Quantiles = tuple[tuple[float, float], ...]

SM_ACTIVE: Final[dict[str, Quantiles]] = {
    "seren": ((0.25, 0.0), (0.4, 0.378), (0.5, 0.501), (0.6, 0.602), (0.75, 0.730), (0.9, 0.809), (0.95, 0.850),
              (0.99, 0.922), (1.0, 1.0)),
    "kalos": ((0.25, 0.0), (0.4, 0.018), (0.5, 0.330), (0.6, 0.651), (0.75, 0.728), (0.9, 0.913), (0.95, 0.941),
              (0.99, 0.990), (1.0, 1.0)),
}  # fmt: skip
TENSOR_ACTIVE: Final[dict[str, Quantiles]] = {
    "seren": ((0.25, 0.0), (0.4, 0.106), (0.5, 0.140), (0.6, 0.169), (0.75, 0.204), (0.9, 0.238), (0.95, 0.305),
              (0.99, 0.490), (1.0, 0.796)),
    "kalos": ((0.25, 0.0), (0.4, 0.0), (0.5, 0.092), (0.6, 0.186), (0.75, 0.205), (0.9, 0.250), (0.95, 0.328),
              (0.99, 0.503), (1.0, 0.993)),
}  # fmt: skip
MEMORY_USED: Final[dict[str, Quantiles]] = {
    "seren": ((0.25, 0.0), (0.4, 0.318), (0.5, 0.393), (0.6, 0.442), (0.75, 0.608), (0.9, 0.826), (0.95, 0.959),
              (1.0, 0.992)),
    "kalos": ((0.25, 0.0), (0.4, 0.488), (0.5, 0.753), (0.6, 0.769), (0.75, 0.774), (0.9, 0.881), (0.95, 0.935),
              (1.0, 0.992)),
}  # fmt: skip
POWER_WATTS: Final[dict[str, Quantiles]] = {
    "seren": ((0.05, 61.8), (0.25, 66.2), (0.5, 96.4), (0.75, 289.9), (0.9, 395.1), (0.95, 407.7), (0.99, 436.6)),
    "kalos": ((0.05, 61.9), (0.25, 66.4), (0.5, 101.3), (0.75, 371.7), (0.9, 403.6), (0.95, 413.0), (0.99, 439.7)),
}
TEMPERATURE_CELSIUS: Final[Quantiles] = (
    (0.05, 25.0),
    (0.25, 30.0),
    (0.5, 40.0),
    (0.75, 51.0),
    (0.95, 62.0),
    (0.99, 66.0),
)
"""GPU temperature in Kalos."""


def drawn(table: Quantiles, rng: np.random.Generator, low: float, high: float) -> float:
    """A value of the distribution between two of its quantiles (0–1)."""
    shares, values = zip(*table, strict=True)
    return float(np.interp(rng.uniform(low, high), shares, values))
