from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pipelines.config import Selector, Tenant
from pipelines.selectors import SELECTOR_KEYS, first_tenant, glob_matches, matches


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("*", "", True),
        ("*H100*", "NVIDIA H100 80GB HBM3", True),
        ("*h100*", "NVIDIA H100 80GB HBM3", True),
        ("H100", "NVIDIA H100", False),
        ("gpu?", "gpu1", True),
        ("gpu?", "gpu10", False),
        ("gpu[0-3]", "GPU2", True),
        ("gpu[!0-3]", "gpu2", False),
        ("a.c", "abc", False),
        ("vision", "vision\n", False),
        ("vision*", "vision\nx", True),
        ("[", "[", True),
    ],
)
def test_a_glob_is_over_the_whole_text_and_ignores_case(pattern: str, text: str, expected: bool) -> None:
    assert glob_matches(pattern, text) is expected


@pytest.mark.parametrize("key", SELECTOR_KEYS)
def test_every_key_matches_its_own_label(key: str) -> None:
    selector = Selector.model_validate({key: "a*"})
    assert matches(selector, {key: "abc"})
    assert not matches(selector, {key: "xyz"})
    assert not matches(selector, {other: "abc" for other in SELECTOR_KEYS if other != key})


@pytest.mark.parametrize("labels", [{}, {"namespace": None}, {"pod": "a"}])
def test_an_absent_label_matches_nothing_not_even_a_star(labels: dict[str, str | None]) -> None:
    assert not matches(Selector(namespace="*"), labels)


def test_all_keys_of_a_selector_must_match() -> None:
    selector = Selector(slurm_account="vision", slurm_partition="gpu*")
    assert matches(selector, {"slurm_account": "vision", "slurm_partition": "gpu-long"})
    assert not matches(selector, {"slurm_account": "vision", "slurm_partition": "cpu"})
    assert not matches(selector, {"slurm_account": "vision"})


@pytest.mark.parametrize(
    ("at", "expected"),
    [("2026-09-30T23:59:59", False), ("2026-10-01", True), ("2026-10-31T23:59:59", True), ("2026-11-01", False)],
)
def test_a_dated_selector_holds_from_its_first_instant_up_to_its_last(at: str, expected: bool) -> None:
    selector = Selector.model_validate({"namespace": "*", "from": "2026-10-01", "to": "2026-11-01"})
    assert matches(selector, {"namespace": "a"}, datetime.fromisoformat(at).replace(tzinfo=UTC)) is expected
    assert matches(selector, {"namespace": "a"})


def test_the_first_tenant_in_file_order_has_the_workload() -> None:
    narrow = Tenant(id="narrow", match=(Selector(namespace="x"), Selector(namespace="vision-a")))
    wide = Tenant(id="wide", match=(Selector(namespace="*"),))
    nobody = Tenant(id="nobody")
    assert first_tenant([nobody, narrow, wide], {"namespace": "vision-a"}) == narrow
    assert first_tenant([nobody, wide, narrow], {"namespace": "vision-a"}) == wide
    assert first_tenant([nobody, narrow, wide], {"slurm_account": "a"}) is None
