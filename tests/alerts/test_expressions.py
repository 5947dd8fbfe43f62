"""Pieces of PromQL mean what the configuration means."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.promql.expressions import anchored, during, labelled, named, number, quote
from pipelines.promql.lint import lint, result_labels
from pipelines.selectors import glob_matches

GLOBS = st.lists(
    st.sampled_from(["*", "?", "a", "B", "-", ".", "+", "(", "$", "[ab]", "[!ab]", "[a-c]", "^"]), max_size=6
)
TEXTS = st.text(alphabet="abBc-.+($^", max_size=6)


@given(GLOBS.map("".join), TEXTS)
def test_a_glob_matches_as_a_pattern_what_the_ledger_matches_by_it(glob: str, text: str) -> None:
    pattern = anchored(glob).removeprefix("(?i)")
    assert (re.fullmatch(pattern, text, re.IGNORECASE) is not None) == glob_matches(glob, text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("3.20"), "3.2"),
        (Decimal("20000.00"), "20000"),
        (Decimal("0.000000000000000001"), "0.000000000000000001"),
        (Decimal(100), "100"),
        (1048576.0, "1048576"),
        (1e-09, "1e-09"),
        (0.01, "0.01"),
    ],
)
def test_numbers_keep_their_value(value: Decimal | float, text: str) -> None:
    assert number(value) == text
    assert float(text) == float(value)


def test_text_is_quoted() -> None:
    assert quote('a"b\\c\nd') == '"a\\"b\\\\c\\nd"'
    assert labelled("x", {"tenant": "$1"}) == 'label_replace(x, "tenant", "$$1", "", "")'


def test_one_name_is_a_plain_selector_and_several_are_one_pattern() -> None:
    assert named(["a"]) == "a"
    assert named(["a", "b"], 'c=""') == '{__name__=~"a|b",c=""}'


def test_time_gates_are_half_open() -> None:
    start, end = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
    assert during("x", None, None) == "x"
    assert during("x", start, end) == "(x and on () (vector(time()) >= 1793491200 < 1796083200))"
    assert during("x", None, end) == "(x and on () (vector(time()) < 1796083200))"


@pytest.mark.parametrize(
    ("expression", "labels"),
    [
        ("sum by (node) (device:busy:ratio)", {"node"}),
        ("sum without (node, gpu) (node:power:watts)", {"cluster"}),
        ('count_values by (node) ("xid", device:xid_last:code)', {"node", "xid"}),
        ("node:gpus:expected - on (node) sum by (node) (node:gpus:present)", {"node"}),
        (
            "tenant:idle_held:gpus * on (model) group_left () sum by (model) (model:price:per_gpu_hour)",
            {"tenant", "model"},
        ),
        ("tenant:quota:gpus or tenant:reserved:gpus", {"tenant", "reservation"}),
        ('label_replace(tenant:quota:gpus, "of", "x", "", "")', {"tenant", "of"}),
        ("time() - max(node:power:watts)", set()),
    ],
)
def test_the_lint_knows_the_labels_of_a_result(expression: str, labels: set[str]) -> None:
    assert result_labels(expression) == labels


@pytest.mark.parametrize(
    "expression",
    [
        "device:busy:ratio * on (cluster, uuid, gpu_instance) group_left () device_tenant:held:gpus",
        "device_tenant:held:gpus - on (uuid) device_tenant:held:gpus",
        "node:power:watts * on (node) group_left () (sum by (node, gpu) (device:busy:ratio) or node:gpus:present)",
    ],
)
def test_a_join_that_fails_when_a_card_changes_hands_is_found(expression: str) -> None:
    assert any("with a side that has one series per" in str(fault) for fault in lint(expression, "x"))


def test_a_join_on_one_series_a_key_is_fine() -> None:
    one = "max by (cluster, uuid, gpu_instance) (device:busy:ratio)"
    assert lint(f"device_tenant:held:gpus * on (cluster, uuid, gpu_instance) group_left () {one}", "x") == []
