"""TRESBillingWeights under each of Slurm's rules."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pipelines.slurm_billing import Mode, billing, mode_of, weights_of

WEIGHTS = "CPU=1.0,Mem=0.25G,GRES/gpu=12"
HELD = "billing=128,cpu=16,gres/gpu=4,mem=256G,node=1"


@pytest.mark.parametrize(
    ("flags", "expected"), [("", 128), ("MAX_TRES", 64), ("MAX_TRES_GRES,SMALL_RELATIVE_TO_TIME", 112)]
)
def test_sixteen_cores_256_gib_and_four_gpus(flags: str, expected: int) -> None:
    assert billing(HELD, weights_of(WEIGHTS), mode_of(flags)) == expected


@pytest.mark.parametrize("mode", ["max_tres", "max_tres_gres"])
def test_global_tres_are_added_to_the_largest_of_the_node(mode: Mode) -> None:
    weights = weights_of("cpu=2,license/matlab=5,bb/cray=1G")
    assert billing("cpu=4,license/matlab=3,bb/cray=2048M", weights, mode) == 8 + 15 + 2


def test_typed_gpus_weigh_by_their_own_weight() -> None:
    weights = weights_of("gres/gpu:a100=16,gres/gpu:v100=8")
    assert billing("gres/gpu=3,gres/gpu:a100=2,gres/gpu:v100=1", weights) == 40


def test_parts_are_exact() -> None:
    assert billing("mem=1M", weights_of("mem=0.3G")) == Decimal("0.3") / 1024
    assert billing("mem=512", weights_of("mem=1G")) == Decimal("0.5")


@pytest.mark.parametrize("text", ["cpu", "cpu=", "cpu=x", "gres/gpu=1e9999"])
def test_what_is_no_number_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="without a number"):
        billing(text, {"cpu": Decimal(1)})
