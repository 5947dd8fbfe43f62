"""Idle capacity adds up to the report's, whatever the fleet, and nothing counts twice."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings

from pipelines.idle.causes import HELD
from pipelines.idle.free import hours_by_cause
from pipelines.instants import HOUR_MS
from pipelines.money import round_money
from tests.pipelines.idle.scenes import idle_of
from tests.pipelines.random_scenes import scenes
from tests.pipelines.scene import Scene

IN_STATE = {"idle": ("unallocated", "fragmented", "reserved_unused"), "stranded": ("stranded",), "down": ("down",)}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenes())
def test_causes_add_up_to_the_report(scene: Scene) -> None:
    with TemporaryDirectory() as folder:
        idle, rated, stages = idle_of(scene, Path(folder))
    hours = hours_by_cause(idle.items)
    for state, causes in IN_STATE.items():
        assert sum((hours.get(c, Fraction(0)) for c in causes), Fraction(0)) == rated.fleet.hours.get(
            state, Fraction(0)
        )
    named = Counter((i.cause, i.cluster, i.subject, i.model, i.owner) for i in idle.items)
    assert all(count == 1 for count in named.values()), named
    assert all(item.gpu_hours > 0 for item in idle.items)
    currency = stages.config.currency
    for tenant, use in rated.tenants.items():
        held = [i for i in idle.items if i.owner == tenant and i.cause in HELD]
        assert sum((i.gpu_hours for i in held), Fraction(0)) * HOUR_MS <= use.held.seen
        assert sum((i.worth or 0 for i in held), Fraction(0)) <= use.held.waste
        if tenant is not None:
            assert sum((i.money or 0 for i in held), Decimal(0)) <= round_money(use.held.waste, currency)
    for state, causes in IN_STATE.items():
        lost = [state] if state != "down" else ["down", "repair"]
        whole = sum((price for s in lost for _, price in rated.fleet.lost.get(s, {}).values()), Fraction(0))
        items = [i for i in idle.items if i.cause in causes and i.worth is not None]
        assert sum((i.worth for i in items if i.worth is not None), Fraction(0)) == whole
