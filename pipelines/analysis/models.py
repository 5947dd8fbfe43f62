"""What cards of a model can do, where their samples don't say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl


@dataclass(frozen=True)
class Peaks:
    """A figure by a part of the model's name in capitals; the first that matches counts."""

    peaks: tuple[tuple[str, float], ...]

    def of(self, model: pl.Expr) -> pl.Expr:
        """Return the figure of each model; null: not known, or no such thing."""
        found = pl.lit(None, pl.Float64)
        for part, peak in reversed(self.peaks):
            found = pl.when(model.str.to_uppercase().str.contains(part, literal=True)).then(peak).otherwise(found)
        return found


NVLINK: Final = Peaks(
    (
        ("GB200", 900e9),
        ("B200", 900e9),
        ("B300", 900e9),
        ("GH200", 450e9),
        ("H200", 450e9),
        ("H100 NVL", 300e9),
        ("H100 PCIE", 300e9),
        ("H100", 450e9),
        ("H800", 200e9),
        ("H20", 450e9),
        ("A100", 300e9),
        ("A800", 200e9),
        ("A30", 100e9),
        ("V100", 150e9),
        ("P100", 80e9),
    )
)
"""Bytes/s in one direction: half of what NVIDIA's data sheets give for both."""

_DIVISIBLE: Final = (
    *("A100", "A30", "A800", "B200", "B300", "H100", "H20", "H800", "RTX PRO 6000"),  # H200 and GB200 among them
    *("A40", "A6000", "L40", "RTX 6000", "V100"),
)
SMALLER: Final = Peaks(tuple((part, 1.0) for part in _DIVISIBLE))
"""1 where the model can be cut by MIG, or a card of half its memory is sold beside it."""

SM_CLOCK: Final = Peaks(
    (
        ("H200", 1.98e9),
        ("H100 PCIE", 1.755e9),
        ("H100 NVL", 1.785e9),
        ("H100", 1.98e9),
        ("A100", 1.41e9),
        ("A30", 1.44e9),
        ("L40S", 2.52e9),
        ("L40", 2.49e9),
        ("V100", 1.53e9),
        ("T4", 1.59e9),
    )
)
"""Hz at the highest, as ``nvidia-smi -q -d CLOCK`` shows it."""
