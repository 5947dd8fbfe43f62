"""Dense peaks by the names that drivers write."""

from __future__ import annotations

import pytest

from gpuledger.training import peak_flops, transformer_flops_per_token
from gpuledger.training.peaks import CARDS, PRECISIONS, Precision


@pytest.mark.parametrize(
    ("name", "precision", "tera"),
    [
        ("NVIDIA H100 80GB HBM3", "bf16", 989.5),
        ("NVIDIA H100 PCIe", "bf16", 756.5),
        ("NVIDIA H100 NVL", "fp8", 1670.5),
        ("NVIDIA H200", "fp8", 1979),
        ("NVIDIA GH200 480GB", "bf16", 989.5),
        ("NVIDIA A100-SXM4-80GB", "tf32", 156),
        ("NVIDIA A100-SXM4-80GB", "fp8", None),
        ("NVIDIA A10", "bf16", 125),
        ("NVIDIA A10G", "bf16", None),
        ("NVIDIA L40", "bf16", 181),
        ("NVIDIA L40S", "bf16", 362),
        ("Tesla V100-SXM2-32GB", "fp16", 125),
        ("Tesla V100-PCIE-16GB", "fp16", 112),
        ("Tesla V100-SXM2-32GB", "bf16", None),
        ("Tesla T4", "bf16", None),
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", "bf16", 312 * 3 / 7),
        ("NVIDIA A30 MIG 1g.6gb", "bf16", 165 / 4),
        ("NVIDIA GeForce RTX 4090", "bf16", None),
        ("", "bf16", None),
    ],
)
def test_the_peak_of_a_card(name: str, precision: Precision, tera: float | None) -> None:
    assert peak_flops(name, precision) == (None if tera is None else pytest.approx(tera * 1e12))


def test_a_faster_precision_is_faster_and_every_figure_has_its_source() -> None:
    for card in CARDS:
        peaks = [peak for p in PRECISIONS if p != "bf16" and (peak := card.peak(p)) is not None]
        assert peaks == sorted(peaks), card
        assert "datasheet" in card.source


def test_no_card_hides_behind_one_that_stands_before_it() -> None:
    for card in CARDS:
        assert peak_flops(card.words, "fp32") == card.peak("fp32")


def test_flops_of_a_transformer() -> None:
    assert transformer_flops_per_token(7e9) == 42e9
    # PaLM 540B, appendix B: 118 layers, 48 heads of 256, sequences of 2048
    palm = transformer_flops_per_token(540e9, layers=118, width=48 * 256, sequence=2048)
    assert palm == pytest.approx(6 * 540e9 + 12 * 118 * 12288 * 2048)
