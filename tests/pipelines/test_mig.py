"""How much of a card a MIG profile is, by NVIDIA's slice tables."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.mig import Weighting, card_weights, slices, weight

A30, A100_40, A100_80 = "NVIDIA A30", "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB"
H100, H100_NVL, H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL", "NVIDIA H200"
GH200, B200, GB200 = "NVIDIA GH200 480GB", "NVIDIA B200", "NVIDIA GB200"

GIGABYTES = {  # of one, two, four and eight memory slices
    A100_40: (5, 10, 20, 40),
    A100_80: (10, 20, 40, 80),
    H100: (10, 20, 40, 80),
    H100_NVL: (12, 24, 47, 94),
    H200: (18, 35, 71, 141),
    GH200: (12, 24, 48, 96),
    B200: (23, 45, 90, 180),
    GB200: (24, 47, 95, 189),
}
PROFILES = {
    A30: {"1g.6gb": (1, 1), "1g.6gb+me": (1, 1), "2g.12gb": (2, 2), "4g.24gb": (4, 4)},
    **{
        model: {
            f"1g.{one}gb": (1, 1),
            f"1g.{two}gb": (1, 2),
            f"2g.{two}gb": (2, 2),
            f"3g.{four}gb": (3, 4),
            f"4g.{four}gb": (4, 4),
            f"7g.{eight}gb": (7, 8),
        }
        for model, (one, two, four, eight) in GIGABYTES.items()
    },
}
"""Compute and memory slices of each profile, of the MIG user guide's tables."""


@pytest.mark.parametrize(
    ("model", "profile", "taken"),
    [(model, profile, taken) for model, rows in PROFILES.items() for profile, taken in rows.items()],
)
def test_a_profile_takes_its_slices_of_the_card(model: str, profile: str, taken: tuple[int, int]) -> None:
    compute, memory = (4, 4) if model == A30 else (7, 8)
    assert slices(model, profile) == (Fraction(taken[0], compute), Fraction(taken[1], memory))


@pytest.mark.parametrize("profile", ["3g.40gb", "MIG 3g.40gb", "3G.40GB", "mig-3g.40gb", "3g.40gb+me"])
def test_a_profile_is_read_however_it_is_written(profile: str) -> None:
    assert slices(H100, profile) == (Fraction(3, 7), Fraction(1, 2))


@pytest.mark.parametrize("profile", [None, "", "weird"])
def test_an_unknown_profile_is_the_smallest(profile: str | None) -> None:
    assert slices(H100, profile) == (Fraction(1, 7), Fraction(1, 8))


def test_an_unknown_card_goes_by_the_plain_profile_of_each_size() -> None:
    assert slices("Some Future Card", "3g.999gb") == (Fraction(3, 7), Fraction(1, 2))


@pytest.mark.parametrize(
    ("profile", "by", "expected"),
    [
        ("3g.40gb", "max", Fraction(1, 2)),
        ("4g.40gb", "max", Fraction(4, 7)),
        ("1g.20gb", "max", Fraction(1, 4)),
        ("1g.20gb", "compute", Fraction(1, 7)),
        ("4g.40gb", "memory", Fraction(1, 2)),
        ("7g.80gb", "compute", Fraction(1)),
    ],
)
def test_a_weight_is_the_larger_of_the_two_or_the_one_asked_for(
    profile: str, by: Weighting, expected: Fraction
) -> None:
    assert weight(H100, profile, by) == expected


def test_weights_beyond_a_card_keep_their_proportions() -> None:
    found = card_weights({"a": (H100, "4g.40gb"), "b": (H100, "3g.40gb")}, "max")
    assert found == {"a": Fraction(8, 15), "b": Fraction(7, 15)}


@given(st.lists(st.sampled_from(sorted(PROFILES[H100])), max_size=7), st.sampled_from(("max", "compute", "memory")))
def test_instances_never_weigh_more_than_their_card(profiles: list[str], by: Weighting) -> None:
    weights = card_weights({str(n): (H100, profile) for n, profile in enumerate(profiles)}, by)
    assert sum(weights.values()) <= 1
    assert all(w > 0 for w in weights.values())
