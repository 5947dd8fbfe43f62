"""Whether a scheduler's name for a GPU means a model."""

from __future__ import annotations

import pytest

from pipelines.models import model_matches

H100 = "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("wanted", "model", "means"),
    [
        ("h100", H100, True),
        ("H100", H100, True),
        ("nvidia_h100_80gb_hbm3", H100, True),
        ("h100-80gb", H100, True),
        (H100, H100, True),
        ("a100", H100, False),
        ("a100", "NVIDIA A100-SXM4-40GB", True),
        ("a100_40gb", "NVIDIA A100-SXM4-40GB", True),
        ("a100_80gb", "NVIDIA A100-SXM4-40GB", False),
        ("a100-80", "NVIDIA A100-SXM4-80GB", False),
        ("a100-80", "NVIDIA A100 80GB PCIe", True),
        ("a100-sxm", "NVIDIA A100-SXM4-80GB", True),
        ("rtx4090", "NVIDIA GeForce RTX 4090", True),
        ("gtx_1080_ti", "NVIDIA GeForce GTX 1080 Ti", True),
        ("gh200", "NVIDIA GH200 480GB", True),
        ("NVIDIA B200", "NVIDIA B200", True),
        ("v100", "Tesla V100-SXM2-16GB", True),
        ("l40s", "NVIDIA L40S", True),
        (None, H100, True),
        ("h100", None, True),
    ],
)
def test_a_gres_type_means_the_models_whose_name_has_its_words(
    wanted: str | None, model: str | None, means: bool
) -> None:
    assert model_matches(wanted, model) is means


@pytest.mark.parametrize(
    ("wanted", "model"),
    [
        ("l40", "NVIDIA L40S"),
        ("l4", "NVIDIA L40"),
        ("a10", "NVIDIA A100-SXM4-40GB"),
        ("NVIDIA A10", "NVIDIA A100-SXM4-40GB"),
        ("h20", "NVIDIA H200"),
        ("h200", "NVIDIA GH200 480GB"),
        ("v100", "Tesla V100S-PCIE-32GB"),
        ("00", "NVIDIA H100 PCIe"),
    ],
)
def test_a_type_that_is_only_a_part_of_a_models_name_is_another_card(wanted: str, model: str) -> None:
    assert not model_matches(wanted, model)
