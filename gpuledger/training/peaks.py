"""Dense peaks of cards, from NVIDIA's datasheets: what model FLOP/s are measured against."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, get_args

Precision = Literal["fp32", "tf32", "fp16", "bf16", "fp8"]
PRECISIONS: Final[tuple[Precision, ...]] = get_args(Precision)

_TERA: Final = 1e12
_MIG: Final = re.compile(r"\bMIG (\d+)g\.")
_WORD: Final = re.compile(r"[A-Z0-9]+")


@dataclass(frozen=True, slots=True)
class Card:
    """The dense peaks of one card in TFLOP/s; None: it has no such units, or the datasheet doesn't say.

    Attributes:
        words: all of them stand in the name that the driver gives it.
        half: FP16 and BF16 on tensor cores; cards before Ampere have FP16 alone.
        source: the datasheet, and what was done to its figures.
        slices: MIG compute slices of the whole card.
    """

    words: str
    fp32: float
    tf32: float | None
    half: float | None
    fp8: float | None
    source: str
    slices: int | None = None
    bf16: bool = True

    def peak(self, precision: Precision) -> float | None:
        """Return the dense peak at a precision, FLOP/s."""
        half = {"fp16": self.half, "bf16": self.half if self.bf16 else None}
        found = {"fp32": self.fp32, "tf32": self.tf32, "fp8": self.fp8, **half}[precision]
        return None if found is None else found * _TERA


_HALVED: Final = "given with sparsity, halved"

CARDS: Final[tuple[Card, ...]] = (
    Card("GB200", 80, 1250, 2500, 5000, f"GB200 NVL72 datasheet, per GPU; {_HALVED}", slices=7),
    Card("B200", 75, 1100, 2250, 4500, f"HGX B200 datasheet, per GPU; {_HALVED}", slices=7),
    Card("B300", 75, 1100, 2250, 4500, f"HGX B300 datasheet, per GPU; {_HALVED}", slices=7),
    Card("GH200", 67, 494.5, 989.5, 1979, f"GH200 datasheet; {_HALVED}", slices=7),
    Card("H200 NVL", 60, 417.5, 835.5, 1670.5, f"H200 datasheet, NVL; {_HALVED}", slices=7),
    Card("H200", 67, 494.5, 989.5, 1979, f"H200 datasheet, SXM; {_HALVED}", slices=7),
    Card("H100 NVL", 60, 417.5, 835.5, 1670.5, f"H100 datasheet, NVL; {_HALVED}", slices=7),
    Card("H100 PCIE", 51, 378, 756.5, 1513, f"H100 datasheet, PCIe; {_HALVED}", slices=7),
    Card("H100", 67, 494.5, 989.5, 1979, f"H100 datasheet, SXM; {_HALVED}", slices=7),
    Card("A100", 19.5, 156, 312, None, "A100 datasheet, dense", slices=7),
    Card("A30", 10.3, 82, 165, None, "A30 datasheet, dense", slices=4),
    Card("A40", 37.4, 74.8, 149.7, None, "A40 datasheet, dense"),
    Card("A10", 31.2, 62.5, 125, None, "A10 datasheet, dense"),
    Card("L40S", 91.6, 183, 362, 733, "L40S datasheet, dense"),
    Card("L40", 90.5, 90.5, 181, 362, "L40 datasheet, dense"),
    Card("L4", 30.3, 60, 121, 242.5, f"L4 datasheet; {_HALVED}"),
    Card("T4", 8.1, None, 65, None, "T4 datasheet", bf16=False),
    Card("V100 PCIE", 14, None, 112, None, "V100 datasheet, PCIe", bf16=False),
    Card("V100", 15.7, None, 125, None, "V100 datasheet, NVLink", bf16=False),
)
"""The first whose words all stand in the name counts, so a variant stands before its family."""


def peak_flops(name: str, precision: Precision = "bf16") -> float | None:
    """Return the dense peak of a card, FLOP/s; None: it isn't known.

    Args:
        name: as the driver writes it ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB MIG 3g.20gb"). A MIG instance
            has its part of the compute slices.
    """
    words = set(_WORD.findall(name.upper()))
    card = next((card for card in CARDS if words.issuperset(card.words.split())), None)
    whole = card.peak(precision) if card is not None else None
    instance = _MIG.search(name)
    if card is None or whole is None or instance is None:
        return whole
    return None if card.slices is None else whole * min(int(instance[1]), card.slices) / card.slices
