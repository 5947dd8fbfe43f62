"""Each alert against its histories, and against small wrong changes of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from alerts.build import every_alert
from tests.alerts.cases import CASES
from tests.alerts.mutants import mutants
from tests.alerts.promtool import Case, example, noticed, rule_of, run

ALERTS = {alert.name: alert for alerts in every_alert(example()).values() for alert in alerts}

pytestmark = pytest.mark.needs_program("promtool")


def histories(name: str) -> list[Case]:
    return [case for case in CASES if case.alert == name]


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_does_what_its_histories_say(name: str, tmp_path: Path) -> None:
    assert run(histories(name), rule_of(name), tmp_path) == ""


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_the_histories_that_matter(name: str) -> None:
    cases = histories(name)
    fires = [case for case in cases if any(case.firing.values())]
    quiet = [case for case in cases if not any(case.firing.values())]
    resolves = [case for case in fires if not list(case.firing.values())[-1]]
    first = [case for case in cases if "first occurrence" in case.what]
    assert all([fires, quiet, resolves, first])
    assert all(case.labels["severity"] == ALERTS[name].severity for case in cases)


@pytest.mark.parametrize("name", ALERTS)
def test_a_small_wrong_change_of_an_alert_is_noticed(name: str, tmp_path: Path) -> None:
    unnoticed = [what for what, rule in mutants(rule_of(name)) if not noticed(histories(name), rule, tmp_path)]
    assert unnoticed == []
